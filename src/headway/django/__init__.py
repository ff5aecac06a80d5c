"""Headway in a Django project: put `headway.django` into INSTALLED_APPS.

The app `hw` uses a database of Django's DATABASES. `manage.py migrate` creates its schema, `manage.py
headway` is the command line, and the modules `tasks` of all installed apps are imported at start.
"""

from headway.django.app import hw

__all__ = ["hw"]
