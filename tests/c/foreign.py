"""A store that has only what all stores have: `foreign.py PEER CLIENT`.

PEER is the folder of the scripted peer. The client of this name may ask once what the store can do, and nothing else.
"""

import runpy
import sys

peer, client = sys.argv[1:]
sys.path.insert(0, peer)
import plays  # noqa: E402

ask = plays.Action("what can you do?", {}, {}, [plays.Exchange(plays.array("CAPS"), "-ERR unknown command\r\n")])
plays.PLAYS["foreign"] = lambda: [plays.Connection(client, [ask])]
sys.argv[1:] = ["foreign"]
runpy.run_path(f"{peer}/__main__.py", run_name="__main__")
