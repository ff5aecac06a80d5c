"""The tables of the shop."""

from django.db import models


class Order(models.Model):
    """An order, and how far it is."""

    email = models.EmailField()
    charged = models.BooleanField(default=False)
    receipt = models.TextField(default="")
