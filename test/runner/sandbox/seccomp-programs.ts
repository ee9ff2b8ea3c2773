/** Programs that say hello, by as many of the system's ways as a line or two allow. */
export const node = `
const { Worker } = require('node:worker_threads');
const { execFileSync } = require('node:child_process');
const server = require('node:net').createServer((socket) => socket.end('hel')).listen('here.sock', async () => {
  let first = '';
  for await (const part of require('node:net').connect('here.sock')) first += part;
  server.close();
  require('node:fs').writeFileSync('node.txt', first);
  const said = require('node:fs').readFileSync('node.txt', 'utf8') + execFileSync('printf', ['l']);
  new Worker('require("node:worker_threads").parentPort.postMessage("o")', { eval: true })
    .on('message', (last) => console.log(said + last));
});`;

export const python = `
import multiprocessing, socket, subprocess, threading
one, other = socket.socketpair()
threading.Thread(target=lambda: one.sendall(b"hel")).start()
said = other.recv(3).decode() + subprocess.check_output(["printf", "l"], text=True)
with multiprocessing.Pool(2) as pool:
    print(said + pool.map(str.lower, ["O"])[0])
`;

export const java = `public class Hello {
  public static void main(String[] all) throws Exception {
    Thread thread = new Thread(() -> System.out.println("hello"));
    thread.start();
    thread.join();
  }
}
`;

/** write(1, "hello\\n", 6), exit(0) */
export const narrowProgram = `.globl _start
_start:
  movl $4, %eax
  movl $1, %ebx
  movl $text, %ecx
  movl $6, %edx
  int $0x80
  movl $1, %eax
  movl $0, %ebx
  int $0x80
text: .ascii "hello\\n"
`;
