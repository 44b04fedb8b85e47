"""A web application that schedules a task for each request. It needs no daemon beside it, and nothing but Python."""

import sys
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

from tasks import send_mail, tasks


def application(environ, start_response):
    to = parse_qs(environ['QUERY_STRING']).get('to', ['joe@example.com'])[0]
    job = tasks.schedule(send_mail, to, subject='your order')
    start_response('202 Accepted', [('Content-Type', 'text/plain')])
    return [b'%s\n' % str(job.id).encode()]


if __name__ == '__main__':
    with make_server('127.0.0.1', int(sys.argv[1]), application) as server:
        print('http://127.0.0.1:%d' % server.server_port, flush=True)
        server.serve_forever()
