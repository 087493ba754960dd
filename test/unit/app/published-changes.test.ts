import { expect, it } from 'vitest';

import { changedFiles, changeLines } from '../../../src/app/published-changes.ts';
import { manifestFile } from '../../support/builders.ts';

it('the changed files are listed with the versions of workbooks, added first, removed last', () => {
  const said = { author: null, message: null, createdAt: null, action: null, parentId: null };
  const version = { id: 'w', versionId: 'v2', ...said };
  const before = [manifestFile('a'), manifestFile('b'), manifestFile('c')];
  const other = manifestFile('b', { sha256: 'other', workbook: version });
  const changes = changedFiles(before, [other, manifestFile('c'), manifestFile('d')]);
  expect([...changeLines(changes)].join('')).toBe(
    '{"change":"added","path":"d"}\n{"change":"changed","path":"b","version":"v2"}\n{"change":"removed","path":"a"}\n',
  );
});
