from django.http import HttpResponse
from django.urls import path

from .tasks import send_letter


def write(request, to):
    send_letter(to, copies=2)
    return HttpResponse('thank you\n', status=202)


urlpatterns = [path('letters/<to>', write)]
