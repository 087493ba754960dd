import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';

import { endOfLine } from '../../../../src/cli/completion/expected.ts';
import { addAllPendingFlags } from '../../../../src/cli/frame/declare.ts';
import { createProgram } from '../../../../src/cli/frame/program.ts';

const program = createProgram();
await addAllPendingFlags(program);

/** The words that may end a line, without their meanings, or the kind of value. */
function offered(...words: string[]): unknown {
  const { expected } = endOfLine(program, words);
  return expected.kind === 'words' ? expected.words.map((word) => word.replace(/\t.*/, '')) : expected.kind;
}

describe('the end of a line may be', () => {
  it('a command, then an argument of it', () => {
    expect(offered('')).toEqual(program.commands.map((command: Command) => command.name()));
    expect(offered('history', '')).toEqual(['list', 'restore']);
    expect(offered('history', 'restore', '')).toBe('kept');
    expect(offered('history', 'restore', '--to', 'one', '')).toBe('kept');
    expect(offered('history', 'restore', 'A/main', '')).toBe('text');
    expect(offered('history', 'restore', '--to', 'one', 'A/main', '--at', 'x', 'B', '')).toBe('text');
    expect(offered('verify', 'A/main', 'B/main', '')).toBe('target');
    expect(offered('keys', 'revoke', '')).toBe('key');
    expect(offered('completion', '')).toEqual(['bash', 'zsh', 'fish']);
    expect(offered('sync', '')).toBe('text');
  });

  it('a flag, or the value of one', () => {
    expect(offered('history', 'restore', '-')).toEqual(
      expect.arrayContaining(['--to', '--config', '--directory', '--max-staleness']),
    );
    expect(offered('sync', '--publish', '')).toEqual(['auto', 'exchange', 'rename', 'link']);
    expect(offered('sync', '--publish=ex')).toContain('--publish=exchange');
    expect(offered('workbooks', 'list', '--status', '')).toEqual(['processing', 'failure']);
    expect(offered('sync', '--config', '')).toBe('file');
    expect(offered('sync', '--service-api-key-file', '')).toBe('file');
    expect(offered('sync', '--directory=')).toBe('folder');
    expect(offered('history', 'restore', '--to', '')).toBe('folder');
    expect(offered('sync', '--schedule', '')).toBe('text');
    expect(offered('sync', '--json', '')).toBe('text');
  });

  it('no flag behind two dashes', () => {
    expect(offered('history', 'restore', '--', '-')).toBe('kept');
    expect(offered('history', 'restore', '--', '--publish=')).toBe('kept');
    expect(offered('history', 'restore', '--', '-x/main', '-')).toBe('text');
  });
});
