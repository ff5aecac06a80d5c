"""An app without tasks."""

from headway import Headway

hw = Headway()
