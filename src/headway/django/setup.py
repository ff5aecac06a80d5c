"""`headway.django.setup:hw`: the app, with Django set up by DJANGO_SETTINGS_MODULE."""

from headway.django.app import loaded

hw = loaded()
