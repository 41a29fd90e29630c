"""Servers with some options, and the effects of these options."""

from optioned import Served

OK = b"+OK\r\n"


def effect(method):
    """Marks a method that asserts the effect of an option: ``max_keys`` that of ``--max-keys``."""
    method.is_effect = True
    return method


class Group:
    """A server with some options, all given in one way, and the effects of these options."""

    # The engine of its storage, which a server can be built without.
    engine = None
    environment = None

    def __init__(self, way, folder, tools):
        self.way, self.folder, self.tools = way, folder, tools
        base = {"listen": ["tcp://127.0.0.1:0"], "http": "http://127.0.0.1:0"}
        options = {**base, **self.options()}
        if not {"storage", "data-dir"} & options.keys():
            options["storage"] = "memory"
        self.server = Served(way, options, folder, self.environment)
        try:
            self.begin()
        except BaseException:
            self.end()
            raise

    def begin(self):
        """Runs after the server has started."""

    def settle(self):
        """Ends the connections of an effect, so that the next effect begins without connections."""
        self.server.disconnect()

    def end(self):
        self.server.close()
