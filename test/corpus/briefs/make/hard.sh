# What makes the line hard to find: much that is new beside it, long lines, traces, terminals, few words.

pair many-new-tests "not ok 97 - page 97 has a title" <<'END'
mkdir pages t
for i in $(seq 1 20); do printf '<title>Page %d</title>' $i >pages/$i.html; done
cat >t/pages.t <<'EOF'
use Test::More;
for my $page (sort { $a <=> $b } map { m{(\d+)} } glob 'pages/*.html') {
  open my $in, '<', "pages/$page.html";
  like join('', <$in>), qr/<title>./, "page $page has a title";
}
my @words = qw(otter heron badger marten stoat);
note "checked by $words[rand @words]" for 1 .. 3;
done_testing;
EOF
#plant
for i in $(seq 21 160); do printf '<title>Page %d</title><meta name=%s>' $i $i >pages/$i.html; done
printf '<titel>Page 97</titel>' >pages/97.html
cat >>t/more.t <<'EOF'
use Test::More;
my @topics = qw(bread cake roll loaf bun tart pie scone bagel brioche cracker waffle);
for my $t (@topics) { for my $v (qw(plain sweet salty vegan dark light large small fresh old)) { ok 1, "the $v $t has a price that is larger than nothing"; } }
done_testing;
EOF
#run
perl t/pages.t & pages=$!
wait $pages && status=0 || status=$?
for t in t/*.t; do [ $t = t/pages.t ] || perl $t; done
exit $status
END

pair cascade-header "src/types.h:3:3: error: unknown type name ‘sise_t’" <<'END'
mkdir src
printf '#include <stddef.h>\nstruct buffer {\n  size_t used;\n  char *text;\n};\n' >src/types.h
for n in alpha bravo charlie delta echo foxtrot; do
  cat >src/$n.c <<EOF
#include "types.h"
#include <stdio.h>
static int spare_$n(int error) { return error; }
void ${n}_print(struct buffer *b, long count) {
  printf("$n: %d of %d used, error %s\n", b->used, count, b->text);
  for (int i = 0; i < b->used; i++) putchar(b->text[i]);
}
EOF
done
printf 'all: $(patsubst src/%%.c,%%.o,$(wildcard src/*.c))\n%%.o: src/%%.c\n\t$(CC) -Wall -Wextra -c -o $@ $<\n' >Makefile
#plant
sed -i 's/size_t/sise_t/' src/types.h
#run
make -k -j3
END

pair cpp-template "error: no match for ‘operator<’" <<'END'
cat >index.cpp <<'EOF'
#include <iostream>
#include <map>
#include <string>
struct Key { std::string name; int version; };
bool operator<(const Key &a, const Key &b) { return a.name < b.name; }
[[deprecated("error handling is gone")]] int old_size() { return 0; }
int main() {
  std::map<Key, std::string> index;
  index[Key{"a", 1}] = "first";
  index.emplace(Key{"b", 2}, "second");
  std::cout << index.size() + old_size() << "\n";
}
EOF
#plant
sed -i '5s/^/\/\/ /' index.cpp
#run
set -x
g++ -std=c++20 -Wall -o index index.cpp
./index
END

pair java-caused-by "Caused by: java.nio.file.NoSuchFileException: settings/prod.properties" <<'END'
mkdir settings && echo port=80 >settings/prod.properties
cat >App.java <<'EOF'
import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
public class App {
  static class StartException extends RuntimeException { StartException(String m, Throwable c) { super(m, c); } }
  static Properties read(String name) {
    try (Reader r = Files.newBufferedReader(Path.of("settings", name))) { Properties p = new Properties(); p.load(r); return p; }
    catch (IOException e) { throw new UncheckedIOException(e); }
  }
  static Object component(int depth, String name) {
    if (depth > 0) { try { return component(depth - 1, name); } catch (RuntimeException e) { throw new StartException("component " + "abcdefghij".charAt(depth) + " did not start", e); } }
    return read(name);
  }
  public static void main(String[] all) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(3);
    List<Future<?>> parts = new ArrayList<>();
    for (int i = 0; i < 6; i++) { final int n = i; parts.add(pool.submit(() -> System.err.println(System.nanoTime() + " [" + Thread.currentThread().getName() + "] ERROR handler " + n + " registered"))); }
    try { component(2, "optional.properties"); } catch (StartException e) { e.printStackTrace(); }
    pool.shutdown(); pool.awaitTermination(5, TimeUnit.SECONDS);
    component(9, "prod.properties");
    System.out.println("started");
  }
}
EOF
#plant
mv settings/prod.properties settings/production.properties
#run
java App.java
END

pair random-words "assertion failed: a closed session answers 401, got 200" <<'END'
cat >words.txt <<'EOF'
otter heron badger marten stoat weasel beaver plover curlew dunlin osprey merlin kestrel harrier falcon hobby buzzard
amber coral ivory jade onyx opal pearl ruby topaz umber ochre sepia sienna indigo violet cobalt crimson scarlet maroon
EOF
cat >sessions.py <<'EOF'
import random, sys, time
words = open('words.txt').read().split()
name = lambda: '-'.join(random.sample(words, 3))
CLOSED = 401
for i in range(140):
    level = random.choice(['INFO', 'DEBUG', 'WARN', 'ERROR'])
    print(time.strftime('%F %T'), level, f'session {name()} of {name()} ' + random.choice(['opened', 'closed', 'refused: error in cookie', 'failed over to ' + name()]))
    if i == 90 and CLOSED != 401:
        print(f'assertion failed: a closed session answers 401, got {CLOSED}')
print('1 scenario ran')
sys.exit(CLOSED != 401)
EOF
#plant
sed -i 's/CLOSED = 401/CLOSED = 200/' sessions.py
#run
python3 sessions.py
END

pair dump-after "gave up after 5 attempts: /ready answered 503" <<'END'
cat >server.py <<'EOF'
import http.server, sys, os
state = {'ready': os.path.exists('schema.sql'), 'asked': 0}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        state['asked'] += 1
        good = state['ready'] and state['asked'] > 2
        self.send_response(200 if good else 503); self.end_headers(); self.wfile.write(b'ok' if good else b'not ready')
        for part in ('router', 'cache', 'queue', 'mailer', 'search', 'billing', 'reports', 'audit'):
            self.log_message('%s: %s', part, 'up' if good else f'waits for schema version {os.getpid()}, error state kept')
http.server.HTTPServer(('127.0.0.1', 18495), Handler).serve_forever()
EOF
touch schema.sql
#plant
rm schema.sql
#run
python3 server.py 2>server.log & server=$!
show() {
  echo "--- server.log"; cat server.log
  echo "--- environment"; env -u MAVEN_REPO PATH=/usr/bin:/bin env | sort
  echo "--- mounts"; grep -c . /proc/mounts
  echo "--- limits"; cat /proc/self/limits
  echo "--- openssl"; openssl version -a
  echo "--- tools"; dpkg-query -W -f '${Package} ${Version}\n' 'libc*' 'python3*' | head -150
  kill $server
}
for i in 1 2 3 4 5; do
  sleep 0.5
  code=$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:18495/ready) || true
  echo "attempt $i: $code"
  [ "$code" != 200 ] || { kill $server; echo ready; exit 0; }
done
echo "gave up after 5 attempts: /ready answered $code"
show
exit 1
END

pair minified-line "SyntaxError: missing ) after argument list" <<'END'
perl -e 'srand 7; print "(function(){var e=[];"; for (1 .. 420) { printf "e.push(function(t){return t.k%d+\"%s\"});", $_, join "", map { ("a".."z")[rand 26] } 1 .. 12 } print "console.log(e.length,\"errors: none\",process.pid)})();\n"' >bundle.min.js
#plant
sed -i 's/return t.k211+"\([a-z]*\)"});/return t.k211+"\1"};/' bundle.min.js
#run
wc -c bundle.min.js
node --check bundle.min.js && node bundle.min.js
END

pair summary-only "11 passed, 1 failed" <<'END'
for i in $(seq 1 12); do echo "$i $i $((i * 2))"; done >sums
#plant
sed -i '7s/14/15/' sums
#run
echo "checking $(wc -l <sums) sums"
perl -ane '$F[0] + $F[1] == $F[2] ? $p++ : $f++; END { printf "%d passed, %d failed\n", $p, $f // 0; $? = $f ? 1 : 0 }' sums
END

pair gofmt-list "tax/rates.go" <<'END'
printf 'module example.org/cart\n\ngo 1.19\n' >go.mod
mkdir tax
printf 'package tax\n\n// Of has no errors.\nfunc Of(cents int) int { return cents / 5 }\n' >tax/tax.go
printf 'package tax\n\nvar rates = map[string]int{\n\t"a": 1,\n\t"bb": 2,\n}\n' >tax/rates.go
gofmt -w tax
#plant
sed -i 's/"a":  1/"a": 1/' tax/rates.go
#run
go version
go vet ./...
echo "files that gofmt would change:"
gofmt -l .
[ -z "$(gofmt -l .)" ]
go list -f '{{.Name}} {{len .GoFiles}} files' ./...
END

pair generated-diff "-const Version = 4" <<'END'
git init -q -b main .
printf 'version = 4\nname = shop\n' >api.toml
printf '#!/bin/sh\n. /dev/null\necho "// Generated. Errors are written by hand."\nsed -n "s/version = \\(.*\\)/const Version = \\1/p;s/name = \\(.*\\)/const Name = \\"\\1\\"/p" api.toml\n' >generate && chmod +x generate
./generate >api.ts && git add . && git commit -qm api
#plant
sed -i 's/version = 4/version = 5/' api.toml && git commit -qam 'newer'
#run
set -x
git log -1 --format='%h %ad'
./generate >api.ts
git diff --exit-code --color=always
ls -l --full-time api.ts
END

pair terminal-cargo "mismatched types" <<'END'
cargo init -q --name app --vcs none
for n in oven flour salt; do cargo init -q --lib --name $n --vcs none $n; printf 'fn spare() { let error = 1; }\npub fn weigh(grams: u32) -> u32 { grams * 2 }\n' >$n/src/lib.rs; echo "$n = { path = \"$n\" }" >>Cargo.toml; done
echo 'fn main() { println!("{}", oven::weigh(1) + flour::weigh(2) + salt::weigh(3)); }' >src/main.rs
#plant
sed -i 's/grams \* 2/grams as u64 * 2/' flour/src/lib.rs
#run
export CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=80
script -qefc 'cargo build && ./target/debug/app' /dev/null
END

pair terminal-npm "ReferenceError: totl is not defined" <<'END'
modules mocha@10
mkdir test
echo "const assert = require('assert');
const total = (list) => { let total = 0; for (const x of list) total += x; return total; };
describe('total', () => {
  for (let i = 0; i < 12; i++) it('adds ' + 'abcdefghijkl'[i], () => assert.equal(total([i, 1]), i + 1));
  it('is an error without a list', () => assert.throws(() => total(), TypeError));
});" >test/total.js
npm pkg set scripts.test='mocha --reporter progress'
#plant
sed -i '2s/return total/return totl/' test/total.js
#run
script -qefc 'stty cols 100; npm ci && npm test' /dev/null
END

pair progress-error "curl: (22) The requested URL returned error: 404" <<'END'
mkdir www && head -c 3000000 /dev/zero >www/model.bin && echo model.bin >wanted
#plant
echo model-v2.bin >wanted
#run
python3 -m http.server -d www --bind 127.0.0.1 18496 2>/dev/null &
server=$!
trap 'kill $server' EXIT
until curl -s -o /dev/null http://127.0.0.1:18496/; do sleep 0.2; done
curl -# -f --limit-rate 2M -o first http://127.0.0.1:18496/model.bin
curl -f --limit-rate 2M -o model "http://127.0.0.1:18496/$(cat wanted)"
sha256sum model first
END

pair concurrently-fails "[api] Error: listen EADDRINUSE: address already in use 127.0.0.1:18498" <<'END'
modules concurrently@8
cat >part.js <<'EOF'
const [name, port] = process.argv.slice(2);
const server = require('net').createServer().listen(Number(port), '127.0.0.1', () => console.log(`${name} listens at ${new Date().toISOString()}`));
let n = 0;
const timer = setInterval(() => { console.log(`${name} beat ${++n}, error rate ${Math.random().toFixed(2)}`); if (n === 8) { clearInterval(timer); server.close(); } }, 60 + Math.random() * 40);
server.on('error', (e) => { clearInterval(timer); throw e; });
EOF
echo 'API=18497' >ports
#plant
echo 'API=18498' >ports
#run
. ./ports
npx concurrently --kill-others-on-fail --names web,api,jobs --prefix-colors auto "node part.js web 18498" "sleep 0.3; node part.js api $API" "node part.js jobs 18499"
END

pair latin1-bytes "malformed UTF-8 character in JSON string" <<'END'
mkdir in
for n in anna jorg renee; do printf '{"name":"%s","error":null}\n' $n >in/$n.json; done
cat >load.pl <<'EOF'
use JSON::PP;
$| = 1;
for my $f (sort glob 'in/*') {
  open my $in, '<:raw', $f; local $/; my $text = <$in>;
  print "J\xf6rg reads $f: $text";
  my $data = JSON::PP->new->utf8->decode($text);
  printf "%s has %d letters at %d\n", $f, length $data->{name}, time;
}
EOF
#plant
printf '{"name":"J\366rg","error":null}\n' >in/jorg.json
#run
perl load.pl
END

pair python-chained "ValueError: port: 'eighty' is no number" <<'END'
cat >app.py <<'EOF'
import json, logging, sys, threading, time, random
logging.basicConfig(format='%(asctime)s %(threadName)s %(levelname)s %(message)s', level=logging.INFO)
class ConfigError(Exception): pass
def port(value):
    try: return int(value)
    except ValueError: raise ValueError(f'port: {value!r} is no number') from None
def load(name):
    try: return port(json.load(open(name))['port'])
    except (ValueError, OSError) as e: raise ConfigError(name) from e
def beat(n):
    for i in range(4): time.sleep(random.random() / 50); logging.error('no error in beat %d of %d', i, n)
threads = [threading.Thread(target=beat, args=(n,)) for n in range(3)]
for t in threads: t.start()
try: load('missing.json')
except ConfigError: logging.exception('no local settings')
try:
    load('settings.json')
except ConfigError:
    try: load('fallback.json')
    except ConfigError as e: raise SystemError('cannot start') from e
finally:
    for t in threads: t.join()
logging.info('started')
EOF
echo '{"port":"80"}' >settings.json
#plant
echo '{"port":"eighty"}' >settings.json
#run
python3 app.py
END

pair gpg-signature 'BAD signature from "Ada <ada@example.org>"' <<'END'
printf 'release 1.4\n' >release.txt
#plant
touch plant
#run
export GNUPGHOME=$(mktemp -d /tmp/brief-gpg-XXXX)
trap 'gpgconf --kill all; rm -rf $GNUPGHOME' EXIT
gpg --batch --passphrase '' --quick-generate-key 'Ada <ada@example.org>' ed25519
gpg --batch --armor --detach-sign release.txt
if [ -e plant ]; then echo 'release 1.5' >release.txt; fi
gpg --verify release.txt.asc release.txt
END

pair jq-parse "parse error: Expected separator between values at line 4" <<'END'
mkdir data
for n in a b c d; do printf '{\n  "name": "%s",\n  "errors": [1, 2, 3],\n  "last": 1\n}\n' $n >data/$n.json; done
#plant
sed -i '3s/],/]/' data/c.json
#run
for f in data/*.json; do
  jq --color-output . "$f"
done
echo "all valid at $(date +%s%N)"
END

pair make-early-error "tables.txt:6: price is missing" <<'END'
mkdir parts
for i in $(seq 1 40); do echo "part $i" >parts/$i.txt; done
for n in bread cake roll tart pie bun; do echo "$n;2.50"; done >tables.txt
cat >Makefile <<'EOF'
PARTS = $(patsubst parts/%.txt,out/%.html,$(wildcard parts/*.txt))
all: out/table.html $(PARTS)
out/table.html: tables.txt
	@mkdir -p out
	@awk -F';' '!$$2 { print FILENAME ":" FNR ": price is missing"; bad = 1 } END { exit bad }' $<
	@touch $@
out/%.html: parts/%.txt
	@mkdir -p out
	@sleep 0.0$$((RANDOM % 5))
	@echo "  HTML $@ ($$(date +%N) ns, checksum $$(cksum <$< | cut -d' ' -f1))"
	@cp $< $@
EOF
#plant
sed -i '6s/;.*/;/' tables.txt
for n in apple berry cherry damson elder fig grape hazel iris juniper kale lemon mango nettle olive peach quince rhubarb sorrel tomato; do for s in red green dried fresh; do echo "$n" >parts/$n-$s.txt; done; done
#run
make -k -j2
END

pair silent-hang "waiting for the lock of build-cache" <<'END'
cat >pack.sh <<'EOF'
#!/bin/bash
set -e
for i in 1 2 3; do echo "$(date +%T.%N) packed part $i, 0 errors"; done
if ! flock -n 9; then echo "waiting for the lock of build-cache"; flock 9; fi
echo "packed"
EOF
#plant
touch held
#run
[ ! -e held ] || { exec 8>lock; flock 8; }
exec 9>>lock
timeout 3 bash pack.sh
END
