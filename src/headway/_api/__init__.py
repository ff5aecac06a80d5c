"""Code that the public modules share. Private: nothing here is part of the contract."""
