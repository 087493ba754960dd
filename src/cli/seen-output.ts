/**
 * Writes what is shown only once to standard output, and waits until it is out.
 * @throws what kept it from being written, such as a full disk, or a reader that is gone
 */
export function printSeen(text: string): Promise<void> {
  const { stdout } = process;
  // They end the process, but whoever waits here has something to undo first.
  const others = stdout.rawListeners('error');
  stdout.removeAllListeners('error');
  return new Promise<void>((resolve, reject) => {
    stdout.on('error', reject);
    stdout.write(`${text}\n`, (error) => {
      if (error !== null && error !== undefined) return;
      stdout.removeAllListeners('error');
      for (const other of others) stdout.on('error', (error) => void Reflect.apply(other, stdout, [error]));
      resolve();
    });
  });
}
