import { Command } from 'commander';
import { describe, expect, it } from 'vitest';

import { addAllPendingFlags } from '../../../../src/cli/frame/declare.ts';
import { addMirrorCommands } from '../../../../src/cli/frame/mirror-commands.ts';
import { addHelpCommands } from '../../../../src/cli/frame/program-commands.ts';
import { addListCommands } from '../../../../src/cli/frame/service-commands.ts';
import { commandTree, everyNode } from '../../../../src/cli/completion/command-tree.ts';
import { expectedAt } from '../../../../src/cli/completion/line.ts';

async function program(): Promise<Command> {
  const command = new Command('workbook-mirror').version('1', '-V, --version', 'print the version');
  addMirrorCommands(command);
  addListCommands(command);
  addHelpCommands(command);
  await addAllPendingFlags(command);
  return command;
}

const tree = commandTree(await program());

function at(path: string): (typeof tree)['children'][number] {
  const found = everyNode(tree).find((node) => node.path === path);
  if (found === undefined) throw new Error(`no command ${path}`);
  return found;
}

describe('the commands as data', () => {
  it('have their paths and what may follow', () => {
    expect(tree.path).toBe('');
    expect(at('history').children.map(({ name }) => name)).toEqual(['list', 'restore']);
    expect(at('history restore').arguments).toEqual([{ kind: 'kept' }, { kind: 'text' }]);
    expect(at('verify').arguments).toEqual([{ kind: 'target' }]);
    expect(at('sync').arguments).toEqual([]);
    expect(at('completion').arguments).toMatchObject([{ kind: 'choice' }]);
  });

  it('know what stands behind a flag', () => {
    const valueOf = (path: string, flag: string): unknown =>
      at(path).flags.find(({ long }) => long === flag)?.value;
    expect(valueOf('sync', '--json')).toBeNull();
    expect(valueOf('sync', '--config')).toEqual({ kind: 'file' });
    expect(valueOf('sync', '--service-api-key-file')).toEqual({ kind: 'file' });
    expect(valueOf('sync', '--directory')).toEqual({ kind: 'folder' });
    expect(valueOf('history restore', '--to')).toEqual({ kind: 'folder' });
    expect(valueOf('sync', '--publish')).toEqual({
      kind: 'choice',
      choices: ['auto', 'exchange', 'rename', 'link'],
    });
    expect(valueOf('workbooks list', '--status')).toEqual({
      kind: 'choice',
      choices: ['processing', 'failure'],
    });
    expect(valueOf('sync', '--schedule')).toEqual({ kind: 'text' });
  });

  it('have one meaning for every flag, as a completion goes by its name alone', () => {
    const values = new Map<string, string>();
    for (const flag of everyNode(tree).flatMap(({ flags }) => flags)) {
      const value = JSON.stringify(flag.value);
      expect(values.get(flag.long) ?? value).toBe(value);
      values.set(flag.long, value);
    }
  });
});

describe('the words for a line', () => {
  const offered = (...words: string[]): unknown => {
    const { value } = expectedAt(tree, words);
    return value.kind === 'choice' ? value.choices.map((choice) => choice.replace(/\t.*/, '')) : value.kind;
  };

  it('are commands, then what the command takes', () => {
    expect(offered('')).toEqual(tree.children.map(({ name }) => name));
    expect(offered('history', '')).toEqual(['list', 'restore']);
    expect(offered('history', 'restore', '')).toBe('kept');
    expect(offered('history', 'restore', '--to', 'one', '')).toBe('kept');
    expect(offered('history', 'restore', 'A/main', '')).toBe('text');
    expect(offered('history', 'restore', '--to', 'one', 'A/main', '--at', 'x', 'B', '')).toBe('text');
    expect(offered('verify', 'A/main', 'B/main', '')).toBe('target');
    expect(offered('sync', '')).toBe('text');
  });

  it('are the flags of the command, and what stands behind one', () => {
    expect(offered('history', 'restore', '-')).toEqual(
      expect.arrayContaining(['--to', '--config', '--directory']),
    );
    expect(offered('sync', '--publish', '')).toEqual(['auto', 'exchange', 'rename', 'link']);
    expect(offered('sync', '--publish=ex')).toEqual(['auto', 'exchange', 'rename', 'link']);
    expect(expectedAt(tree, ['sync', '--publish=ex']).lead).toBe('--publish=');
    expect(offered('sync', '--config', '')).toBe('file');
    expect(offered('sync', '--directory=')).toBe('folder');
    expect(offered('sync', '--json=')).toBe('text');
  });

  it('are no flags behind two dashes', () => {
    expect(offered('history', 'restore', '--', '-')).toBe('kept');
    expect(offered('history', 'restore', '--', '--publish=')).toBe('kept');
    expect(offered('history', 'restore', '--', '-x/main', '-')).toBe('text');
  });

  it('come with where the mirror is', () => {
    const line = ['verify', '--directory', '/a', '--config=b c', '--json', '--serve-directory', '-d', ''];
    expect(expectedAt(tree, line).places).toEqual(['--directory=/a', '--config=b c', '--serve-directory=-d']);
  });
});
