from spoold import Tasks

from .models import Question

tasks = Tasks()


@tasks.task(name='polls:close', max_retries=3)
def close(pk):
    Question.objects.filter(pk=pk).delete()
    print('closed question', pk)
