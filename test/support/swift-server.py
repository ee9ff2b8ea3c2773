"""A real object store for tests: OpenStack Swift with its S3 interface, all four servers in one process.

Started with an empty folder. Says `ready PORT` when S3 is served on that port of 127.0.0.1. Reads commands from standard
input: `objects off` makes the object server refuse connections, `objects on` takes that back; each is answered with
`done`. It ends with its input. Nothing is kept from a loss of power, which no test has: waiting for the disk would take
most of the time.
"""

import eventlet

eventlet.patcher.monkey_patch()

import os
import sys
import time

os.fsync = os.fdatasync = lambda file: None

from eventlet import wsgi
from eventlet.green import select, socket
from swift.common import db, utils, wsgi as swift_wsgi
from swift.common.http_protocol import SwiftHttpProtocol
from swift.common.ring import RingBuilder
from swift.common import storage_policy

connect = db.get_db_connection


def connect_hastily(*args, **options):
    connection = connect(*args, **options)
    connection.execute('PRAGMA synchronous = OFF')
    return connection


db.get_db_connection = connect_hastily

folder = sys.argv[1]
for name in ['etc', 'devices/d', 'cache', 'locks']:
    os.makedirs(os.path.join(folder, name))
etc = os.path.join(folder, 'etc')


class Cache:
    """What memcached is to Swift, in this process alone, and for a moment: what is gone is noticed."""

    seconds = 1

    def __init__(self):
        self.values = {}

    def get(self, key, *args, **options):
        value, until = self.values.get(key, (None, 0))
        return value if time.time() < until else None

    def set(self, key, value, *args, **options):
        self.values[key] = (value, time.time() + self.seconds)

    def delete(self, key, *args, **options):
        self.values.pop(key, None)

    def incr(self, key, delta=1, *args, **options):
        self.set(key, (self.get(key) or 0) + delta)
        return self.get(key)


def make_cache(settings, **more):
    cache = Cache()

    def wrapped(app):
        def serve(environment, start_response):
            environment['swift.cache'] = cache
            return app(environment, start_response)

        return serve

    return wrapped


sys.modules['cache_of_tests'] = sys.modules['__main__']


def listen(port=0):
    return eventlet.listen(('127.0.0.1', port), reuse_addr=True, backlog=256)


sockets = {name: listen() for name in ['account', 'container', 'object', 'proxy']}
ports = {name: sock.getsockname()[1] for name, sock in sockets.items()}

for name in ['account', 'container', 'object']:
    builder = RingBuilder(2, 1, 1)
    builder.add_dev({'id': 0, 'region': 1, 'zone': 1, 'weight': 1, 'ip': '127.0.0.1', 'port': ports[name],
                     'replication_ip': '127.0.0.1', 'replication_port': ports[name], 'device': 'd', 'meta': ''})
    builder.rebalance()
    builder.get_ring().save(os.path.join(etc, name + '.ring.gz'))


def write(name, text):
    path = os.path.join(etc, name)
    with open(path, 'w') as file:
        file.write(text)
    return path


write('swift.conf', '[swift-hash]\nswift_hash_path_suffix = test\n[storage-policy:0]\nname = one\ndefault = yes\n')
common = '''[DEFAULT]
swift_dir = {etc}
devices = {folder}/devices
recon_cache_path = {folder}/cache
mount_check = false
fallocate_reserve = 0
disable_fallocate = true
log_level = ERROR
'''.format(etc=etc, folder=folder)
files = {
    name: write(name + '.conf', common + '[pipeline:main]\npipeline = {0}-server\n[app:{0}-server]\nuse = egg:swift#{0}\n'.format(name))
    for name in ['account', 'container', 'object']
}
files['proxy'] = write('proxy.conf', common + '''[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats cache s3api tempauth copy slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
conn_timeout = 1
node_timeout = 5
error_suppression_limit = 1000000
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:cache]
paste.filter_factory = cache_of_tests:make_cache
[filter:s3api]
use = egg:swift#s3api
location = test-1
s3_acl = false
check_bucket_owner = false
[filter:tempauth]
use = egg:swift#tempauth
user_tests_writer = secret-of-the-writer .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
''')

utils.SWIFT_CONF_FILE = os.path.join(etc, 'swift.conf')
storage_policy.SWIFT_CONF_FILE = utils.SWIFT_CONF_FILE
utils.validate_hash_conf()
storage_policy.reload_storage_policies()


apps = {name: swift_wsgi.loadapp(path, global_conf={'log_name': name}) for name, path in files.items()}


def run(name, sock):
    wsgi.server(sock, apps[name], utils.NullLogger(), protocol=SwiftHttpProtocol, socket_timeout=60,
                capitalize_response_headers=False)


threads = {name: eventlet.spawn(run, name, sock) for name, sock in sockets.items()}
print('ready {}'.format(ports['proxy']), flush=True)
while True:
    select.select([sys.stdin], [], [])
    line = os.read(0, 1000).decode()
    if line == '':
        os._exit(0)
    for command in line.split('\n'):
        if command == 'objects off':
            sockets['object'].close()
            eventlet.kill(threads['object'])
        elif command == 'objects on':
            sockets['object'] = listen(ports['object'])
            threads['object'] = eventlet.spawn(run, 'object', sockets['object'])
        else:
            continue
        print('done', flush=True)
