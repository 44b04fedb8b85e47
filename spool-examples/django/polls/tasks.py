from spoold import Tasks

from .models import Question

tasks = Tasks()


@tasks.task(name='polls:close', max_retries=3)
def close(pk):
    question = Question.objects.get(pk=pk)
    print('closed:', question.text)
    question.delete()
