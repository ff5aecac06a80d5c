"""The sources of an app's options: files, the environment, code and the command line.

    defaults (core/config.py)
    < headway.toml, or [tool.headway] of pyproject.toml        files.py
    < its table [profiles.NAME], if $HEADWAY_ENV is NAME       files.py
    < the environment, including a .env file                   environment.py, dotenv.py
    < code: Headway(...), and the arguments of a worker
    < the command line

Layers combine field by field: a field that a layer does not set comes from the layer below. `fields.py`
finds the fields in the dataclasses of core/config.py, `kinds.py` parses values by their types, and
`layers.py` combines the layers and records the origin of each value. Headway reads nothing before an app
is used, and apps share nothing that was read.
"""
