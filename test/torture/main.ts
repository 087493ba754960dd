import { parseArgs } from 'node:util';

import { FILE_SYSTEMS } from './places.ts';
import { torture } from './torture.ts';

/** Runs several instances on one directory for long: test/torture/README.md. Exit codes: 0 all held, 1 something did not, 2 usage. */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    repositories: { type: 'string', default: '1000' },
    'file-system': { type: 'string', default: 'gluster' },
  },
});
const [minutes, repositories] = [Number(values.minutes), Number(values.repositories)];
const fileSystem = FILE_SYSTEMS.find((name) => name === values['file-system']);

function say(line: string): void {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}

if (fileSystem === undefined || !(minutes >= 0) || !Number.isSafeInteger(repositories) || repositories < 1) {
  process.stderr.write(`expected numbers, and --file-system ${FILE_SYSTEMS.join(' or ')}\n`);
  process.exitCode = 2;
} else {
  await using stack = new AsyncDisposableStack();
  // Instances and mounts would outlive it.
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => void stack.disposeAsync().finally(() => process.exit(1)));
  const { figures, violations } = await torture(
    // Who starts reads all that is there: more of it needs longer to come to work.
    { fileSystem, repositories, lastsMs: minutes * 60_000, pauseMs: 1000 + repositories * 5 },
    (undo) => stack.defer(undo),
    say,
  );
  say(JSON.stringify(figures));
  for (const violation of violations) say(`violated: ${violation}`);
  process.exitCode = violations.length === 0 ? 0 : 1;
}
