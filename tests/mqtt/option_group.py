"""Servers with some options, and the effects of these options."""

import re
import signal

from optioned import Served, given, until

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
        self.given = {**base, **self.options()}
        if not {"storage", "data-dir"} & self.given.keys():
            self.given["storage"] = "memory"

    def start(self):
        """Starts the server with the options."""
        self.start_with(self.given)
        try:
            self.begin()
        except BaseException:
            self.end()
            raise

    def start_with(self, options):
        """Starts the server with other options."""
        self.server = Served(self.way, options, self.folder, self.environment)

    def reload(self):
        """Writes the options to the file of a running server. Returns the names of those that the reload does not apply."""
        given("file", self.given, self.folder)
        found = re.search(r'needs_restart="?([a-z,-]+)', self.hang_up())
        return found[1].split(",") if found else []

    def hang_up(self):
        """Makes the server read its configuration again. Returns the line about it, before which all earlier lines are in the log."""

        def lines():
            return [line for line in self.server.log().splitlines() if "the configuration was read again" in line or "cannot reload" in line]

        before = len(lines())
        self.server.process.send_signal(signal.SIGHUP)
        until("the reload is logged", lambda: len(lines()) > before)
        [line] = lines()[before:]
        assert "cannot reload" not in line, line
        return line

    def begin(self):
        """Runs after the server has started."""

    def settle(self):
        """Ends the connections of an effect, so that the next effect begins without connections."""
        self.server.disconnect()

    def end(self):
        self.server.close()
