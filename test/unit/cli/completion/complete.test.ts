import { describe, expect, it } from 'vitest';

import { completionsOf } from '../../../../src/cli/completion/complete.ts';
import { addAllPendingFlags } from '../../../../src/cli/frame/declare.ts';
import { createProgram } from '../../../../src/cli/frame/program.ts';

const program = createProgram();
await addAllPendingFlags(program);

function offered(...words: string[]): Promise<readonly string[]> {
  return completionsOf(program, words);
}

describe('the end of a line may be', () => {
  it('a command, then a word for its argument', async () => {
    expect(await offered('')).toEqual(program.commands.map((command) => command.name()));
    expect(await offered('history', '')).toEqual(['list', 'prune', 'restore']);
    expect(await offered('completion', '')).toEqual(['bash', 'zsh', 'fish']);
    expect(await offered('help', '')).toEqual(expect.arrayContaining(['sync', 'on-disk']));
  });

  it('a flag, or the value of one', async () => {
    expect(await offered('history', 'restore', '-')).toEqual(
      expect.arrayContaining(['--to', '--config', '--directory', '--max-staleness']),
    );
    expect(await offered('sync', '--publish', '')).toEqual(['auto', 'exchange', 'rename', 'link']);
    expect(await offered('sync', '--publish=ex')).toContain('--publish=exchange');
    expect(await offered('workbooks', 'list', '--status', '')).toEqual(['processing', 'failure']);
  });

  it('a file if there is no word', async () => {
    expect(await offered('sync', '--config', '')).toEqual([]);
    expect(await offered('sync', '--directory=')).toEqual([]);
    expect(await offered('lease', 'acquire', '--for', '1h', '--', '-')).toEqual([]);
  });
});
