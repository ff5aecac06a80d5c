"""A Django project whose database is that of the test run. $HEADWAY_TEST_DJANGO is its address."""

import os

import psycopg

_server = psycopg.conninfo.conninfo_to_dict(os.environ["HEADWAY_TEST_DJANGO"])

SECRET_KEY = "for tests"
USE_TZ = True
ROOT_URLCONF = "tests.django.project.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "headway.django",
    "tests.django.project",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
_PROCESSORS = ["django.contrib.auth.context_processors.auth"]
_PROCESSORS += ["django.contrib.messages.context_processors.messages"]
_PROCESSORS += ["django.template.context_processors.request"]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": _PROCESSORS},
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _server["host"],
        "PORT": _server["port"],
        "USER": _server.get("user", ""),
        "PASSWORD": _server.get("password", ""),
        "NAME": _server["dbname"],
        "OPTIONS": {"application_name": "django"},
        "CONN_MAX_AGE": None,
    },
}
HEADWAY = {"DATABASE": "default", "SCHEMA": "django_jobs", "POOL_SIZE": 3}
TASKS = {
    "default": {"BACKEND": "headway.django.backend.HeadwayBackend", "QUEUES": []},
    "again": {
        "BACKEND": "headway.django.backend.HeadwayBackend",
        "QUEUES": [],
        "OPTIONS": {"retry": 2},
    },
}
