# Compilers and test runners of Rust, Go, Java and OCaml.

pair rustc-borrow "error[E0502]: cannot borrow \`names\` as mutable because it is also borrowed as immutable" <<'END'
cargo init -q --name roster --vcs none
cat >src/main.rs <<'EOF'
fn longest(names: &[String]) -> usize { names.iter().map(|n| n.len()).max().unwrap_or(0) }
fn unused_error() -> Result<(), String> { Err("error: never said".into()) }
fn main() {
    let mut names = vec![String::from("Ada"), String::from("Grace")];
    let width = longest(&names);
    names.push(String::from("Edsger"));
    let last: i32 = 3;
    for n in &names { println!("{:>width$}", n); }
}
EOF
#plant
sed -i 's/let width = longest(&names);/let first = \&names[0];\n    let width = longest(\&names);/;s/let last: i32 = 3;/println!("{first}");/' src/main.rs
#run
cargo build --color always
cargo run
END

pair cargo-test "left: 11" <<'END'
cargo init -q --lib --name money --vcs none
cat >src/lib.rs <<'EOF'
//! Money in cents.
/// Adds a tax.
/// ```
/// assert_eq!(money::with_tax(100, 20), 120);
/// ```
pub fn with_tax(cents: i64, percent: i64) -> i64 { cents + cents * percent / 100 }
pub fn parse(text: &str) -> Result<i64, String> { text.parse().map_err(|e| format!("error: {e}")) }
#[cfg(test)]
mod tests {
    use super::*;
    #[test] fn taxes() { assert_eq!(with_tax(10, 30), 13); }
    #[test] fn no_tax() { assert_eq!(with_tax(0, 10), 0); }
    #[test] fn bad_text_is_an_error() { println!("{:?}", parse("x")); assert!(parse("x").is_err()); }
    #[test] #[should_panic(expected = "failed")] fn panics() { panic!("failed on purpose") }
    #[test] #[ignore = "slow"] fn slow() {}
}
EOF
#plant
sed -i 's/percent \/ 100 }/percent \/ 300 }/' src/lib.rs
#run
RUST_BACKTRACE=1 cargo test
END

pair cargo-missing-crate "no matching package named \`pretzel\` found" <<'END'
cargo init -q --name shop --vcs none
cargo init -q --lib --name oven --vcs none oven
echo 'oven = { path = "oven" }' >>Cargo.toml
cargo generate-lockfile --offline
#plant
echo 'pretzel = "2.0"' >>Cargo.toml
#run
cargo --version
cargo build --offline -v
target/debug/shop
END

pair cargo-lock "because --locked was passed" <<'END'
cargo init -q --name shop --vcs none
cargo init -q --lib --name oven --vcs none oven
cargo init -q --lib --name flour --vcs none flour
echo 'oven = { path = "oven" }' >>Cargo.toml
cargo generate-lockfile --offline
#plant
echo 'flour = { path = "../flour" }' >>oven/Cargo.toml
#run
cargo build --locked --offline
./target/debug/shop
END

pair rust-panic "a number in each line: ParseIntError" <<'END'
cargo init -q --name feed --vcs none
cat >src/main.rs <<'EOF'
use std::time::SystemTime;
fn main() {
    let text = std::fs::read_to_string("feed.txt").unwrap();
    for (i, line) in text.lines().enumerate() {
        let n: u32 = line.trim().parse().expect("a number in each line");
        eprintln!("[{:?}] line {i}: {n}", SystemTime::now());
    }
    println!("no panic");
}
EOF
printf '1\n2\n3\n' >feed.txt
#plant
printf '1\n2\nthree\n' >feed.txt
#run
cargo run --release
END

pair go-build "cannot use total (variable of type float64) as type int in return statement" <<'END'
printf 'module example.org/cart\n\ngo 1.19\n' >go.mod
mkdir tax
printf 'package tax\n\n// Of is what is added; an error is never returned.\nfunc Of(cents int) int { return cents / 5 }\n' >tax/tax.go
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"os"

	"example.org/cart/tax"
)

func sum(prices []int) int {
	total := 0
	for _, p := range prices {
		total += p + tax.Of(p)
	}
	return total
}

func main() { fmt.Fprintln(os.Stderr, "sum", sum([]int{100, 250})) }
EOF
#plant
sed -i 's/total := 0/total := 0.0/;s/total += p + tax.Of(p)/total += float64(p + tax.Of(p))/' main.go
#run
go version
go vet ./tax
go build -v -o cart .
./cart
END

pair go-test "cart_test.go:11: sum of three: got 45, want 60" <<'END'
printf 'module example.org/cart\n\ngo 1.19\n' >go.mod
cat >cart.go <<'EOF'
package cart

func Sum(prices []int) (total int) {
	for i := 0; i < len(prices); i++ {
		total += prices[i]
	}
	return
}
EOF
cat >cart_test.go <<'EOF'
package cart

import (
	"testing"
	"time"
)

func TestSum(t *testing.T) {
	t.Logf("started %v", time.Now())
	if got := Sum([]int{15, 20, 25}); got != 60 {
		t.Errorf("sum of three: got %d, want 60", got)
	}
}

func TestSlow(t *testing.T) { t.Parallel(); time.Sleep(30 * time.Millisecond); t.Log("error rate 0, 0 failed") }
func TestEmpty(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nil", "none"} {
		t.Run(name, func(t *testing.T) { if Sum(nil) != 0 { t.Fatal("not 0") } })
	}
}
func TestSkip(t *testing.T) { t.Skip("FAIL: no network here") }
EOF
#plant
sed -i 's/i := 0; i </i := 1; i </' cart.go
#run
go test -v -count=1 ./...
END

pair go-panic "panic: runtime error: index out of range [3] with length 3" <<'END'
printf 'module example.org/ring\n\ngo 1.19\n' >go.mod
cat >main.go <<'EOF'
package main

import (
	"log"
	"sync"
	"time"
)

func main() {
	ring := make([]int, 3)
	var all sync.WaitGroup
	var lock sync.Mutex
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			lock.Lock()
			defer lock.Unlock()
			ring[i%len(ring)] += i
			log.Printf("worker %d at %p: panic averted", i, &lock)
		}(i)
	}
	all.Wait()
	time.Sleep(100 * time.Millisecond)
	log.Print("done ", ring)
}
EOF
#plant
sed -i 's/ring\[i%len(ring)\]/ring[i]/' main.go
#run
go run .
END

pair javac-symbol "src/shop/Main.java:6: error: cannot find symbol" <<'END'
mkdir -p src/shop
cat >src/shop/Cart.java <<'EOF'
package shop;
import java.util.*;
public class Cart {
  private final List prices = new ArrayList();
  public void add(int cents) { prices.add(new Integer(cents)); }
  public int total() { int sum = 0; for (Object p : prices) sum += (Integer) p; return sum; }
}
EOF
cat >src/shop/Main.java <<'EOF'
package shop;
public class Main {
  public static void main(String[] all) {
    Cart cart = new Cart();
    cart.add(250);
    System.out.println("total " + cart.total() + " at " + System.nanoTime());
  }
}
EOF
#plant
sed -i 's/int total()/int totals()/' src/shop/Cart.java
#run
javac -Xlint:all -d out $(find src -name '*.java')
java -cp out shop.Main
END

pair junit-fails "java.lang.AssertionError: rounding up expected:<3> but was:<2>" <<'END'
mkdir src
cat >src/Rounding.java <<'EOF'
public class Rounding { public static int up(int a, int b) { return (a + b - 1) / b; } }
EOF
cat >src/RoundingTest.java <<'EOF'
import static org.junit.Assert.*;
import org.junit.*;
public class RoundingTest {
  @Test public void exact() { assertEquals(2, Rounding.up(4, 2)); }
  @Test public void rounds() { assertEquals("rounding up", 3, Rounding.up(5, 2)); }
  @Test(expected = ArithmeticException.class) public void byZero() { Rounding.up(1, 0); }
  @Test public void prints() { new Exception("printed, no failure").printStackTrace(); }
  @Ignore("fails on Windows") @Test public void ignored() { fail(); }
}
EOF
#plant
sed -i 's/(a + b - 1)/a/' src/Rounding.java
#run
jars=/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar
mkdir out && javac -cp $jars -d out src/*.java
java -cp $jars:out org.junit.runner.JUnitCore RoundingTest
END

pair java-exception 'Exception in thread "main" java.lang.NullPointerException' <<'END'
cat >Load.java <<'EOF'
import java.util.*;
import java.util.logging.*;
public class Load {
  static final Logger log = Logger.getLogger("load");
  public static void main(String[] all) throws Exception {
    Properties settings = new Properties();
    settings.load(new java.io.FileReader("load.properties"));
    log.warning("error log is at " + java.nio.file.Files.createTempFile("load", ".log"));
    try { Integer.parseInt("x"); } catch (NumberFormatException e) { log.log(Level.WARNING, "port is not a number, using 80", e); }
    log.info("host has " + settings.getProperty("host").length() + " letters");
    log.info("loaded");
  }
}
EOF
echo host=db >load.properties
#plant
echo hosts=db >load.properties
#run
java Load.java
END

pair ocaml-type "This expression has type string but an expression was expected of type" <<'END'
printf 'let total prices = List.fold_left ( + ) 0 prices\nlet first (error :: _) = error\n' >cart.ml
printf 'let () =\n  let rec helper x = x in\n  Printf.printf "%%d\\n" (Cart.total [ 1; 2; 3 ])\n' >main.ml
#plant
sed -i 's/2; 3/2; "3"/' main.ml
#run
set -x
ocamlc -version
ocamlc -w +a-70 -c cart.ml
ocamlc -w +a-70 -c main.ml
ocamlc -o cart cart.cmo main.cmo
./cart
END
