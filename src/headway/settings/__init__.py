"""Where an app's options come from: files, the environment, code and the command line.

    defaults (core/config.py)
    < headway.toml, or [tool.headway] of pyproject.toml        files.py
    < its table [profiles.NAME], if $HEADWAY_ENV is NAME       files.py
    < the environment, of which a .env file is a part          environment.py, dotenv.py
    < code: Headway(...), and what a worker is called with
    < the command line

Field by field: what a higher layer does not say is the lower one's. `fields.py` finds the fields in
the dataclasses of core/config.py, `kinds.py` reads values by their types, `layers.py` puts the layers
together and knows of each value where it came from. Nothing is read before an app is used, and
nothing is kept from one app for another.
"""
