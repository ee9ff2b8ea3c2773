# Databases, caches, images, packages of the system, and certificates.

pair psql-migration 'ERROR:  column "emial" does not exist' <<'END'
mkdir migrations
echo 'CREATE TABLE people (id serial PRIMARY KEY, email text NOT NULL); DROP TABLE IF EXISTS errors;' >migrations/001-people.sql
echo "INSERT INTO people (email) SELECT 'p' || n || '@example.org' FROM generate_series(1, 500) n;" >migrations/002-fill.sql
echo 'CREATE INDEX people_email ON people (lower(email));
ANALYZE VERBOSE people;' >migrations/003-index.sql
echo 'ALTER TABLE people ADD COLUMN IF NOT EXISTS email text;' >migrations/004-again.sql
#plant
sed -i 's/lower(email)/lower(emial)/' migrations/003-index.sql
#run
bin=$(ls -d /usr/lib/postgresql/*/bin)
data=$(mktemp -d /tmp/brief-pg-XXXX)
chown postgres "$data"
as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
as $bin/initdb -D $data -A trust >/dev/null
as $bin/pg_ctl -w -D $data -o "-k $data -c listen_addresses= -c log_min_messages=info" start
trap 'as $bin/pg_ctl -m fast -D $data stop; rm -rf $data' EXIT
for m in migrations/*.sql; do
  echo "--> $m"
  psql -h $data -U postgres -v ON_ERROR_STOP=1 -c '\timing on' -f $m
done
END

pair psql-no-server 'failed: No such file or directory' <<'END'
echo 'SELECT now(), pg_backend_pid();' >ping.sql
echo socket=here >settings
#plant
echo socket=there >settings
#run
. ./settings
bin=$(ls -d /usr/lib/postgresql/*/bin)
data=$(mktemp -d /tmp/brief-pg-XXXX); mkdir $data/here $data/there
chown -R postgres "$data"
as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
as $bin/initdb -D $data/db -A trust | tail -12
as $bin/pg_ctl -w -l $data/log -D $data/db -o "-k $data/here -c listen_addresses=" start
trap 'as $bin/pg_ctl -m immediate -D $data/db stop; rm -rf $data' EXIT
psql -h $data/here -U postgres -c 'SELECT 1/0' || true
psql -h $data/$socket -U postgres -f ping.sql
END

pair sqlite-constraint 'UNIQUE constraint failed: people.email' <<'END'
echo 'CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT UNIQUE, error TEXT);' >schema.sql
for i in 1 2 3 4 5 6; do echo "INSERT INTO people (email) VALUES ('p$i@example.org');"; done >seed.sql
#plant
sed -i 's/p5@/p2@/' seed.sql
#run
sqlite3 --version
sqlite3 -bail app.db '.timer on' '.read schema.sql'
sqlite3 -bail app.db '.changes on' '.read seed.sql'
sqlite3 -box app.db "SELECT *, hex(randomblob(4)) AS token FROM people"
END

pair redis-refused 'Could not connect to Redis at 127.0.0.1:18480: Connection refused' <<'END'
echo PORT=18479 >settings
#plant
echo PORT=18480 >settings
#run
. ./settings
dir=$(mktemp -d /tmp/brief-redis-XXXX)
redis-server --port 18479 --bind 127.0.0.1 --dir $dir --save '' &
server=$!
trap 'kill $server; wait $server || true; rm -r $dir' EXIT
until redis-cli -p 18479 ping; do sleep 0.3; done
redis-cli -p 18479 HGET missing error
redis-cli -p $PORT set builds 1
redis-cli -p $PORT info server | grep -e process_id -e run_id -e uptime
END

pair apt-missing "E: Unable to locate package libpretzel-dev" <<'END'
echo 'sqlite3 git' >packages
#plant
echo 'sqlite3 libpretzel-dev git' >packages
#run
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
apt install -s -y --no-install-recommends ca-certificates
apt-get install -s -y --no-install-recommends $(cat packages)
END

pair dpkg-dependency "dpkg: dependency problems prevent configuration of brief-shop" <<'END'
mkdir -p shop/DEBIAN
printf 'Package: brief-shop\nVersion: 1.4\nArchitecture: all\nMaintainer: Ada <ada@example.org>\nDepends: coreutils\nDescription: A shop without errors\n' >shop/DEBIAN/control
#plant
sed -i 's/coreutils/coreutils, brief-oven (>= 2)/' shop/DEBIAN/control
#run
root=$(mktemp -d /tmp/brief-dpkg-XXXX)
trap 'rm -r $root' EXIT
mkdir -p $root/var/lib/dpkg/{info,updates}
printf 'Package: coreutils\nStatus: install ok installed\nMaintainer: x <x@example.org>\nArchitecture: amd64\nVersion: 9.1\nDescription: x\n' >$root/var/lib/dpkg/status
dpkg-deb --build shop brief-shop.deb
dpkg --admindir=$root/var/lib/dpkg --instdir=$root --log=/dev/null --force-not-root --force-script-chrootless -i brief-shop.deb
END

pair buildah-run "./configure: line 3: cmakee: not found" <<'END'
mkdir context && cp /usr/bin/busybox context/ 2>/dev/null || cp /bin/busybox context/
cat >context/configure <<'EOF'
#!/bin/sh
echo "configure: error log is in /tmp/$$.log"
cmake --version
EOF
cat >context/Containerfile <<'EOF'
FROM scratch
COPY busybox /bin/busybox
COPY --chmod=755 configure /configure
RUN ["/bin/busybox", "sh", "-c", "for c in sh ls echo date sleep; do /bin/busybox ln -s busybox /bin/$c; done; echo '#!/bin/sh' >/bin/cmake; echo 'echo cmake 3.25' >>/bin/cmake; /bin/busybox chmod +x /bin/cmake"]
ENV PATH=/bin
RUN date; ls /nothing || true
RUN set -e; ./configure
LABEL errors=0
EOF
#plant
sed -i 's/^cmake/cmakee/' context/configure
#run
root=$(mktemp -d /var/tmp/brief-buildah-XXXX)
trap 'rm -rf $root' EXIT
buildah --version
buildah --root $root/root --runroot $root/run --storage-driver vfs build --isolation chroot --network host --no-cache -t shop:1.4 context
buildah --root $root/root --runroot $root/run --storage-driver vfs images
END

pair skopeo-missing "manifest unknown" <<'END'
mkdir image && echo layer >image/file
echo 'TAG=1.4' >settings
#plant
echo 'TAG=1.5' >settings
#run
. ./settings
dir=$(mktemp -d /tmp/brief-registry-XXXX)
printf 'version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: 127.0.0.1:18491}\n' $dir >$dir/config.yml
docker-registry serve $dir/config.yml &
server=$!
trap 'kill $server; rm -r $dir' EXIT
until curl -sf http://127.0.0.1:18491/v2/ -o /dev/null; do sleep 0.3; done
tar -cf layer.tar -C image . && gzip -n -9 -k layer.tar
mkdir oci && cd oci && mkdir -p blobs/sha256
put() { local d; d=$(sha256sum "$1" | cut -d' ' -f1); cp "$1" blobs/sha256/$d; echo "\"digest\":\"sha256:$d\",\"size\":$(stat -c %s "$1")"; }
layer=$(put ../layer.tar.gz)
printf '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' $(sha256sum ../layer.tar | cut -d' ' -f1) >../config.json
config=$(put ../config.json)
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json",%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",%s}]}' "$config" "$layer" >../manifest.json
manifest=$(put ../manifest.json)
printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",%s,"annotations":{"org.opencontainers.image.ref.name":"1.4"}}]}' "$manifest" >index.json
echo '{"imageLayoutVersion":"1.0.0"}' >oci-layout
cd ..
skopeo copy --dest-tls-verify=false oci:oci:1.4 docker://127.0.0.1:18491/acme/shop:1.4
skopeo inspect --tls-verify=false docker://127.0.0.1:18491/acme/shop:$TAG
END

pair skopeo-unauthorized "invalid username/password" <<'END'
echo 'CREDENTIALS=ci:right' >settings
#plant
echo 'CREDENTIALS=ci:old' >settings
#run
. ./settings
dir=$(mktemp -d /tmp/brief-registry-XXXX)
printf 'ci:%s\n' "$(python3 -c 'import crypt; print(crypt.crypt("right", crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))')" >$dir/users
printf 'version: 0.1\nlog: {level: warn}\nauth: {htpasswd: {realm: r, path: %s/users}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: 127.0.0.1:18492}\n' $dir $dir >$dir/config.yml
docker-registry serve $dir/config.yml &
server=$!
trap 'kill $server; rm -r $dir' EXIT
until curl -s http://127.0.0.1:18492/v2/ -o /dev/null; do sleep 0.3; done
echo "logging in as ${CREDENTIALS%%:*}"
skopeo login --authfile $dir/auth.json --tls-verify=false -u ci -p "${CREDENTIALS#*:}" 127.0.0.1:18492
curl -sS -u "$CREDENTIALS" http://127.0.0.1:18492/v2/_catalog
END

pair tls-expired "certificate has expired" <<'END'
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost
#plant
openssl req -new -key key.pem -subj /CN=localhost -out c.csr
printf 'subjectAltName=DNS:localhost\n' >ext
openssl x509 -req -in c.csr -signkey key.pem -out cert.pem -days -1 -extfile ext
#run
openssl s_server -accept 18493 -cert cert.pem -key key.pem -www -quiet &
server=$!
trap 'kill $server' EXIT
sleep 1
curl -sS -o /dev/null -w 'without checks: %{http_code} in %{time_total}s, %{ssl_verify_result}\n' -k https://localhost:18493/
openssl s_client -connect localhost:18493 -CAfile cert.pem -verify_return_error -brief </dev/null
curl -sS -o /dev/null -w '%{http_code}\n' --cacert cert.pem https://localhost:18493/
END

pair maven-compile "incompatible types: java.lang.String cannot be converted to int" <<'END'
mkdir -p src/main/java/shop
printf 'package shop;\npublic class Cart {\n  public static int total(java.util.List<Integer> prices) {\n    return prices.stream().mapToInt(p -> p).sum();\n  }\n}\n' >src/main/java/shop/Cart.java
cat >pom.xml <<'EOF'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>acme</groupId><artifactId>shop</artifactId><version>1.4</version>
  <properties><maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target></properties>
  <build><plugins>
    <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin>
  </plugins></build>
</project>
EOF
#plant
sed -i '4s/sum()/sum() + ""/' src/main/java/shop/Cart.java
#run
mvn -o -B -Dmaven.repo.local=$MAVEN_REPO compile
END

pair maven-test "CartTest.adds:8 three prices ==> expected: <6> but was: <4>" <<'END'
mkdir -p src/main/java/shop src/test/java/shop
printf 'package shop;\npublic class Cart {\n  public static int total(java.util.List<Integer> prices) {\n    return prices.stream().mapToInt(p -> p).sum();\n  }\n}\n' >src/main/java/shop/Cart.java
cat >src/test/java/shop/CartTest.java <<'EOF'
package shop;
import static org.junit.jupiter.api.Assertions.*;
import java.util.*;
import java.util.logging.Logger;
import org.junit.jupiter.api.*;
class CartTest {
  @Test void adds() {
    assertEquals(6, Cart.total(List.of(1, 3, 2)), "three prices");
  }
  @Test void empty() { Logger.getLogger("cart").severe("ERROR: an empty cart in " + Thread.currentThread()); assertEquals(0, Cart.total(List.of())); }
  @Test void failsOnNull() { assertThrows(NullPointerException.class, () -> Cart.total(null)); }
  @Disabled("failure on Windows") @Test void later() { fail(); }
}
EOF
cat >pom.xml <<'EOF'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>acme</groupId><artifactId>shop</artifactId><version>1.4</version>
  <properties><maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target></properties>
  <dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.10.2</version><scope>test</scope></dependency></dependencies>
  <build><plugins>
    <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin>
    <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin>
  </plugins></build>
</project>
EOF
#plant
sed -i '4s/stream()/stream().skip(1).map(p -> p - 1 + 1)/;4s/skip(1)/limit(2)/' src/main/java/shop/Cart.java
#run
mvn -o -B -Dmaven.repo.local=$MAVEN_REPO -Dstyle.color=always test
END
