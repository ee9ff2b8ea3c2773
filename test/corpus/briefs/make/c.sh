# C and C++: compilers, linkers and what calls them.

pair gcc-undeclared "src/ring.c:15:23: error: ‘lenght’ undeclared" <<'END'
mkdir src
cat >src/ring.h <<'EOF'
#include <stddef.h>
struct ring { int *slots; size_t length, head; };
int ring_push(struct ring *r, int value);
int ring_sum(const struct ring *r);
EOF
cat >src/ring.c <<'EOF'
#include "ring.h"
#include <stdio.h>

static int unused_helper(int a, char *name) { return a; }

int ring_push(struct ring *r, int value) {
  if (r->head == r->length) return -1;
  r->slots[r->head++] = value;
  return 0;
}

int ring_sum(const struct ring *r) {
  int sum = 0;
  size_t length = r->length;
  for (int i = 0; i < length; i++) sum += r->slots[i];
  return sum;
}
EOF
cat >src/main.c <<'EOF'
#include "ring.h"
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  int slots[4] = {0};
  char name[4];
  strncpy(name, "error: none", 4);
  struct ring r = {slots, 4, 0};
  ring_push(&r, argc);
  printf("sum %ld\n", ring_sum(&r));
  return 0;
}
EOF
cat >Makefile <<'EOF'
CFLAGS = -O2 -Wall -Wextra
build/ring: build/main.o build/ring.o
	$(CC) -o $@ $^
build/%.o: src/%.c
	@mkdir -p build
	$(CC) $(CFLAGS) -c -o $@ $<
EOF
#plant
sed -i '15s/length/lenght/' src/ring.c
#run
gcc --version | head -1
make -j2
./build/ring
END

pair gxx-no-member "error: ‘const class Account’ has no member named ‘balanse’" <<'END'
cat >account.hpp <<'EOF'
#pragma once
#include <map>
#include <string>
#include <vector>
class Account {
public:
  explicit Account(std::string owner) : owner(owner) {}
  [[deprecated("use post()")]] void add(long cents) { total += cents; }
  void post(long cents) { total += cents; }
  long balance() const { return total; }
private:
  std::string owner;
  long total = 0;
};
EOF
cat >main.cpp <<'EOF'
#include "account.hpp"
#include <algorithm>
#include <iostream>
int main() {
  std::map<std::string, std::vector<Account>> all;
  all["a"].emplace_back("Ada");
  all["a"].back().add(250);
  std::sort(all["a"].begin(), all["a"].end(), [](const auto &x, const auto &y) { return x.balance() < y.balance(); });
  for (unsigned i = 0; i < all["a"].size(); i++) std::cout << all["a"][i].balance() << "\n";
}
EOF
#plant
sed -i '8s/x.balance()/x.balanse()/' main.cpp
#run
set -x
g++ -std=c++17 -Wall -fdiagnostics-color=always -c main.cpp
g++ -o ledger main.o
./ledger
END

pair ld-undefined "undefined reference to \`checksum'" <<'END'
cat >hash.c <<'EOF'
unsigned checksum(const char *s) { unsigned h = 5381; while (*s) h = h * 33 + *s++; return h; }
EOF
cat >table.c <<'EOF'
#include <stdlib.h>
#include <stdio.h>
unsigned checksum(const char *s);
unsigned slot(const char *s) { char *copy = tempnam(0, s); free(copy); return checksum(s) % 16; }
EOF
cat >main.c <<'EOF'
#include <stdio.h>
unsigned slot(const char *s);
int main(void) { printf("%u\n", slot("error")); return 0; }
EOF
cat >Makefile <<'EOF'
OBJECTS = main.o table.o hash.o
hashes: $(OBJECTS)
	$(CC) -o $@ $(OBJECTS)
	./hashes
EOF
#plant
sed -i 's/ hash.o//' Makefile
#run
make CFLAGS="-std=gnu99 -Wall -g"
END

pair ld-duplicate "multiple definition of \`verbose'" <<'END'
cat >options.h <<'EOF'
extern int verbose;
void parse(int count, char **list);
EOF
cat >options.c <<'EOF'
#include "options.h"
int verbose = 0;
void parse(int count, char **list) { int unused; for (int i = 0; i < count; i++) if (list[i][0] == '-') verbose++; }
EOF
cat >main.c <<'EOF'
#include "options.h"
int main(int argc, char **argv) { parse(argc, argv); return verbose; }
EOF
printf 'all: tool\ntool: main.o options.o\n\t$(CC) -o $@ $^\nmain.o options.o: options.h\n' >Makefile
#plant
sed -i 's/extern int verbose;/int verbose;/' options.h
#run
time make -j2 CFLAGS='-Wall -O1'
END

pair ld-missing-library "cannot find -lfreetypo" <<'END'
cat >CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.5)
project(zoom C)
find_package(Threads REQUIRED)
find_package(Doxygen)
add_library(pixels STATIC pixels.c)
add_executable(zoom main.c)
target_link_libraries(zoom pixels m Threads::Threads)
EOF
echo 'double scale(double x) { return x * 2; }' >pixels.c
printf '#include <stdio.h>\n#include <math.h>\ndouble scale(double x);\nint main(void) { printf("%%f\\n", sqrt(scale(2))); }\n' >main.c
#plant
sed -i 's/pixels m /pixels m freetypo /' CMakeLists.txt
#run
cmake -S . -B build
cmake --build build
build/zoom
END

pair cmake-no-package 'By not providing "FindLibPretzel.cmake" in CMAKE_MODULE_PATH' <<'END'
cat >CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.0)
project(bakery VERSION 1.4 LANGUAGES C)
find_package(ZLIB)
find_package(Git)
include(CheckIncludeFile)
check_include_file(sys/event.h HAVE_KQUEUE)
check_include_file(sys/epoll.h HAVE_EPOLL)
if(NOT HAVE_KQUEUE)
  message(WARNING "kqueue not found, error reports will be short")
endif()
#find_package(LibPretzel 2 REQUIRED)
add_executable(bakery main.c)
EOF
echo 'int main(void) { return 0; }' >main.c
#plant
sed -i 's/^#find/find/' CMakeLists.txt
#run
mkdir build && cd build
cmake -G Ninja ..
ninja -v
END

pair ninja-no-input "missing and no known rule to make it" <<'END'
mkdir parts
for i in 1 2 3 4 5 6 7 8; do echo "int part$i(void) { int error; return $i; }" >parts/p$i.c; done
{
  printf 'rule cc\n  command = gcc -Wall -c $in -o $out\n  description = CC $out\nrule ar\n  command = ar rcs $out $in\n'
  for i in 1 2 3 4 5 6 7 8; do echo "build out/p$i.o: cc parts/p$i.c"; done
  echo 'build out/parts.a: ar out/p1.o out/p2.o out/p3.o out/p4.o out/p5.o out/p6.o out/p7.o out/p8.o'
} >build.ninja
#plant
mv parts/p6.c parts/p06.c
#run
ninja --version
NINJA_STATUS='[%f/%t %es] ' ninja -j4
ls -l --time-style=full-iso out/parts.a
END

pair make-no-rule "No rule to make target 'out/faq.html'" <<'END'
mkdir docs
for p in index setup faq; do printf '# %s\n\ntext of %s\n' $p $p >docs/$p.md; done
cat >Makefile <<'EOF'
PAGES = index setup faq
site: $(PAGES:%=out/%.html)
	@echo "$(words $^) pages at `date`"
out/%.html: docs/%.md | out
	@echo "  PAGE  $@"
	@sed 's/^# \(.*\)/<h1>\1<\/h1>/' $< > $@
	-@grep -q 'no such words' $<
out:
	mkdir out
EOF
#plant
mv docs/faq.md docs/questions.md
#run
make site
END

pair gcc-werror 'error: format ‘%d’ expects argument of type ‘int’' <<'END'
for i in net disk log; do
cat >$i.c <<EOF
#include <stdio.h>
static int spare_$i(void) { return 1; }
void ${i}_report(long count) { printf("$i: %ld errors, 0 failed\n", count); }
EOF
done
echo 'void net_report(long); void disk_report(long); void log_report(long); int main(void) { net_report(1); disk_report(2); log_report(0); return 0; }' >main.c
#plant
sed -i 's/%ld/%d/' disk.c
#run
set -x
for f in net disk log main; do
  gcc -Wall -Wno-error=unused-function -Werror=format -c $f.c
done
gcc *.o -o report
./report
END

pair gcc-segfault "Segmentation fault" <<'END'
cat >queue.c <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
struct node { struct node *next; int value; };
int main(void) {
  struct node *head = 0;
  for (int i = 0; i < 5; i++) { struct node *n = malloc(sizeof *n); n->next = head; n->value = i; head = n; }
  fprintf(stderr, "[%ld] pushed 5 values from %p\n", (long)time(0), (void *)head);
  for (struct node *n = head; n; n = n->next) { fprintf(stderr, "pop %d\n", n->value); }
  puts("queue test: 0 errors");
  return 0;
}
EOF
printf 'check: queue\n\t./queue\n\t@echo all checks passed\nqueue: queue.c\n\t$(CC) -O0 -g -Wall -o $@ $<\n' >Makefile
#plant
sed -i 's/n = n->next) {/n = n->next->next) {/' queue.c
#run
make check
END

pair asan-overflow "ERROR: AddressSanitizer: heap-buffer-overflow" <<'END'
cat >rows.c <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void fill(char *row, int width) {
  memset(row, '.', width);
  row[width - 1] = 0;
}
int main(void) {
  for (int i = 2; i < 6; i++) {
    char *row = malloc(i);
    fill(row, i);
    printf("row %d at %p: %s\n", i, (void *)row, row);
    free(row);
  }
  return 0;
}
EOF
#plant
sed -i 's/row\[width - 1\]/row[width]/' rows.c
#run
export ASAN_OPTIONS=abort_on_error=0
gcc -g -fsanitize=address -o rows rows.c 2>&1
./rows
END

pair ctest-fails "cart.cpp:13: total: expected 230, got 220" <<'END'
cat >CMakeLists.txt <<'EOF'
cmake_minimum_required(VERSION 3.13)
project(cart CXX)
enable_testing()
foreach(part total empty coupon error_page shipping)
  add_executable(t_${part} cart.cpp)
  target_compile_definitions(t_${part} PRIVATE CASE_${part} CASE="${part}")
  add_test(NAME ${part} COMMAND t_${part})
endforeach()
EOF
cat >cart.cpp <<'EOF'
#include <cstdio>
#include <ctime>
static int price(int count, int each) {
  int shipping = 30;
  return count * each + shipping;
}
static int check(int line, int want, int got) {
  printf("cart.cpp:%d: %s: expected %d, got %d\n", line, CASE, want, got);
  return want != got;
}
int main() {
#ifdef CASE_total
  return check(__LINE__, 230, price(2, 100));
#endif
  printf("%s ran at %ld: no error\n", CASE, (long)time(0));
  return 0;
}
EOF
#plant
sed -i 's/shipping = 30/shipping = 20/' cart.cpp
#run
cmake -B out -DCMAKE_BUILD_TYPE=Debug . >/dev/null
cmake --build out --parallel 2
cd out && ctest --output-on-failure -j2
END

pair gtest-fails "Which is: 86399" <<'END'
cat >clock_test.cc <<'EOF'
#include <gtest/gtest.h>
#include <thread>
#include <chrono>
static int seconds(int h, int m, int s) { return h * 3600 + m * 60 + s; }
TEST(Clock, Midnight) { EXPECT_EQ(0, seconds(0, 0, 0)); }
TEST(Clock, Noon) { std::this_thread::sleep_for(std::chrono::milliseconds(7)); EXPECT_EQ(43200, seconds(12, 0, 0)); }
TEST(Clock, EndOfDay) { EXPECT_EQ(86400, seconds(23, 59, 59) + 1); }
TEST(Clock, ErrorsAreNegative) { RecordProperty("error", "failed"); EXPECT_LT(seconds(-1, 0, 0), 0); }
TEST(Clock, DISABLED_LeapSecond) { EXPECT_EQ(86401, seconds(23, 59, 61)); }
TEST(Zone, Failed) { GTEST_SKIP() << "no zone data: Failed to open /usr/share/zones"; }
EOF
#plant
sed -i 's/seconds(23, 59, 59) + 1)/seconds(23, 59, 59))/' clock_test.cc
#run
g++ -O0 -o clock_test clock_test.cc -lgtest -lgtest_main -pthread
GTEST_COLOR=yes ./clock_test --gtest_shuffle
END

pair autoconf-library "configure: error: libpretzel 2.0 or newer is needed" <<'END'
cat >configure.ac <<'EOF'
AC_INIT([bakery],[1.4])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
AC_HEADER_STDC
AC_CHECK_HEADERS([sys/event.h sys/epoll.h fcntl.h])
AC_CHECK_LIB([m],[sqrt])
AC_CHECK_LIB([m],[bake],[],[AC_MSG_WARN([libbake not found, errors will be cold])])
#AC_CHECK_LIB([pretzel],[pretzel_salt],[],[AC_MSG_ERROR([libpretzel 2.0 or newer is needed])])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
EOF
printf 'bin_PROGRAMS = bakery\nbakery_SOURCES = main.c\n' >Makefile.am
echo 'int main(void) { return 0; }' >main.c
#plant
sed -i 's/^#AC_/AC_/' configure.ac
#run
autoreconf -i
./configure --prefix=/usr
make
END

pair meson-dependency 'ERROR: Dependency "libpretzel" not found, tried pkgconfig' <<'END'
cat >meson.build <<'EOF'
project('bakery', 'c', version: '1.4', default_options: ['warning_level=2'])
cc = meson.get_compiler('c')
m = cc.find_library('m', required: false)
zlib = dependency('zlib', required: false)
salt = dependency('libpretzel', version: '>=2.0', required: get_option('salt'))
exe = executable('bakery', 'main.c', dependencies: [m, zlib, salt])
test('bakes', exe)
EOF
echo "option('salt', type: 'feature', value: 'auto')" >meson_options.txt
echo 'int main(int argc, char **argv) { return 0; }' >main.c
#plant
sed -i "s/'auto'/'enabled'/" meson_options.txt
#run
meson setup --fatal-meson-warnings build
meson test -C build
END

pair valgrind-leak "definitely lost in loss record" <<'END'
cat >names.c <<'EOF'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
  static char *kept;
  kept = strdup("errors are kept");
  for (int i = 0; i < 3; i++) {
    char *name = malloc(16);
    snprintf(name, 16, "name %d", i);
    printf("%s at %p\n", name, (void *)name);
    free(name);
  }
  return kept[0] != 'e';
}
EOF
#plant
sed -i 's/    free(name);/    if (i) free(name);/' names.c
#run
gcc -g -o names names.c
valgrind --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=definite --error-exitcode=1 ./names
END
