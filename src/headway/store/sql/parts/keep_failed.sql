-- How long a job that did not succeed is kept, if no worker has declared its task. core/config.py has the same.
interval '720 hours'
