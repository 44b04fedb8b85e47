from uwsgidecorators import cron, spool


@spool(pass_arguments=True)
def send_letter(to, copies=1):
    print('%d letters to %s' % (copies, to), flush=True)


@cron(0, 3, -1, -1, -1)
def clean(number):
    print('cleaned', flush=True)
