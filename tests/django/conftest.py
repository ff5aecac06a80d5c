"""The files in `project/` are collected by Django's runner, not by pytest: see `test_project.py`."""

collect_ignore = ["project"]
