"""Tasks of a shop. The daemon imports this module to run them, and the web application to schedule them."""

from spoold import AbortException, Tasks, signals

tasks = Tasks(max_retries=5)


@tasks.task(name='send-mail')
def send_mail(to, subject='hello'):
    if '@' not in to:
        raise AbortException('not an address: %s' % to)
    print('a mail to', to, 'about', subject)


@signals.job_failed.connect
def failed(namespace, job, err, **kwargs):
    print(job.task_name, 'has failed for good:', err)
