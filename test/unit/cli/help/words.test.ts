import { describe, expect, it } from 'vitest';

import { EVENTS } from '../../../../src/app/events.ts';
import { NOT_WELL_REASONS, TARGET_STATES } from '../../../../src/app/target-status.ts';
import { aboutWord, MOST_LINES, passagesOf } from '../../../../src/cli/help/help.ts';
import { meaningsOf } from '../../../../src/cli/help/words.ts';
import { settingDescriptors } from '../../../../src/config/descriptors.ts';
import { ERROR_RULES } from '../../../../src/lib/errors/errors.ts';
import { HOLD_REASONS, RETIRE_REASONS } from '../../../../src/mirror/plan/actions.ts';
import { fullScrape } from '../../../support/scrapes.ts';

const TABLES = { ERROR_RULES, EVENTS, HOLD_REASONS, RETIRE_REASONS };

describe('help WORD', () => {
  it.each(Object.entries(TABLES))('knows every word of %s', (_name, table) => {
    for (const word of Object.keys(table)) {
      const lines = meaningsOf(word);
      expect(lines.length, word).toBeGreaterThan(0);
      for (const line of lines) expect(line).toMatch(/: [\w`].*\.$/s);
    }
  });

  it('knows every state, and every reason why a target is not well', () => {
    for (const state of [...TARGET_STATES, ...NOT_WELL_REASONS])
      expect([...meaningsOf(state), ...aboutWord(state)].length, state).toBeGreaterThan(0);
  });

  it.each(['pull', 'keep', 'hold', 'retire', 'leave', 'VERIFIED', 'changed', 'LAST ARCHIVE'])(
    'knows %j of a table',
    (word) => {
      expect(meaningsOf(word)).toHaveLength(1);
    },
  );

  it('knows every metric and every setting, in ten lines', async () => {
    const metrics = [...(await fullScrape()).families.keys()];
    const names = metrics.flatMap((name) => /^workbook_mirror_(.*)/.exec(name)?.[1] ?? []);
    const settings = settingDescriptors.filter(({ secret }) => !secret).map(({ name }) => name);
    for (const word of [...names, ...settings]) {
      const lines = aboutWord(word);
      expect(lines.length, word).toBeGreaterThan(0);
      expect(lines.length, word).toBeLessThanOrEqual(MOST_LINES);
    }
  });

  it.each(['proxy', 'certificate', 'token', 'quota', 'exit code 4'])('knows the common word %j', (word) => {
    expect(aboutWord(word).length).toBeGreaterThan(1);
  });
});

describe('the passages of a chapter', () => {
  const chapter =
    '# A\n\nSome [text](x.md) about `disk`.\n\n```sh\nno disk\n```\n\n- one item\n  goes on\n- two\n\n| word | what it is |\n| --- | --- |\n| `a.b`, `c` | a \\| b |\n';

  it('are its paragraphs, items and rows, a line each, without code and headings', () => {
    expect(passagesOf('a', chapter).map(({ text }) => text)).toEqual([
      'Some [text](x.md) about `disk`.',
      '- one item goes on',
      '- two',
      '| `a.b`, `c` | a \\| b |',
    ]);
  });

  it('are found by the first cell of a row, otherwise by all words, and never by a part of a word', () => {
    const passages = passagesOf('a', chapter);
    expect(aboutWord('C', passages)).toEqual(['| `a.b`, `c` | a \\| b |', '  (help a)']);
    expect(aboutWord('item one', passages)).toEqual(['- one item goes on', '  (help a)']);
    expect(aboutWord('dis', passages)).toEqual([]);
  });
});
