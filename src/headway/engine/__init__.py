"""The worker: async services that claim, run, settle and look after jobs. No SQL in here."""
