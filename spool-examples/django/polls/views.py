from django.db import transaction
from django.http import HttpResponse
from spoold.contrib.django import schedule_on_commit

from .models import Question


@transaction.atomic
def ask(request, text):
    question = Question.objects.create(text=text)
    schedule_on_commit('polls:close', question.pk)
    return HttpResponse(status=202)
