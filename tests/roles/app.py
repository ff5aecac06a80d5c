"""An app for `headway worker`."""

from headway import Headway
from tests.roles.stage import define

hw = define(Headway())
