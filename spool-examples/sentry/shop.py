import sentry_sdk
from spoold import Tasks
from spoold.contrib.sentry import SpooldIntegration

# SENTRY_DSN says where events go
sentry_sdk.init(integrations=[SpooldIntegration()], traces_sample_rate=1.0)

tasks = Tasks()


@tasks.task(name='charge')
def charge(order, card):
    raise ValueError('the card of order %d was declined' % order)


if __name__ == '__main__':
    tasks.schedule(charge, 17, card='4111')
