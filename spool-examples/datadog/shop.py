from spoold import Tasks
from spoold.contrib.datadog import register_datadog

# DD_TRACE_AGENT_URL says where the agent is
register_datadog(service='shop')

tasks = Tasks()


@tasks.task(name='charge')
def charge(order):
    print('order', order, 'is paid')


if __name__ == '__main__':
    tasks.schedule(charge, 17)
