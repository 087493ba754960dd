#!/usr/bin/env node
import process from 'node:process';

const LEAST_NODE = [22, 22] as const;

/** Whether this Node is new enough; older ones lack calls that the program cannot do without. */
function isNodeNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > LEAST_NODE[0] || (major === LEAST_NODE[0] && minor >= LEAST_NODE[1]);
}

async function main(): Promise<number> {
  // NO_COLOR beats FORCE_COLOR (https://no-color.org); Node itself would have it the other way, and warn of it.
  if ((process.env['NO_COLOR'] ?? '') !== '') delete process.env['FORCE_COLOR'];
  if (!isNodeNewEnough(process.versions.node)) {
    // eslint-disable-next-line no-restricted-properties -- such a Node may not understand what everything else goes through
    process.stderr.write(
      `workbook-mirror: needs Node ${LEAST_NODE.join('.')} or later, and this is ${process.versions.node}.\n`,
    );
    return 2;
  }
  const { endWithOutput, standardOutput } = await import('./lib/process/streams.ts');
  endWithOutput();
  const [only, ...others] = process.argv.slice(2);
  // Asked often by programs, and answered without what a whole command line takes to be understood.
  if ((only === '--version' || only === '-V') && others.length === 0) {
    const { packageVersion } = await import('./lib/process/program-folder.ts');
    const { say } = await import('./lib/text/terminal-text.ts');
    standardOutput.write(say`${packageVersion()}\n`);
    return 0;
  }
  // Node names its main thread MainThread, so users could not find the program in a list of processes.
  process.title = ['workbook-mirror', ...process.argv.slice(2)].join(' ');
  const { runProgram } = await import('./cli/frame/program.ts');
  const { tellFailure } = await import('./cli/frame/output.ts');
  const { exitCodeOf, toMirrorError } = await import('./lib/errors/errors.ts');
  // An unhandled rejection is most often a defect. Node itself would print the names in it without escaping them.
  process.on('uncaughtException', (error) => {
    tellFailure(toMirrorError(error), process.argv);
    process.exit(exitCodeOf(error));
  });
  return (await runProgram(process.argv)).exitCode;
}

process.exitCode = await main();
