import { expect, it } from 'vitest';

import { CREDENTIAL_STATEMENTS } from '../../../src/probe/credentials.ts';
import type { Finding } from '../../../src/probe/statement.ts';
import { WORKBOOK_STATEMENTS } from '../../../src/probe/workbooks.ts';

const STATEMENTS = { ...CREDENTIAL_STATEMENTS, ...WORKBOOK_STATEMENTS };

it.each<[string, Finding['outcome'], string, RegExp | null]>([
  ['credentials.v1.wrong', 'not tried', 'not asked', /--with-wrong-key/],
  ['credentials.v1.wrong', 'not tried', 'v1 is not asked', null],
  ['credentials.v1.wrong', 'holds', '401 JSON', null],
  ['credentials.v1.wrong', 'holds', '403 JSON', /without permission/],
  ['credentials.v1.wrong', 'holds', '404 JSON', /check both/],
  ['credentials.v1.wrong', 'holds', '400 JSON', /tries again/],
  ['credentials.v1.wrong', 'differs', '300 empty', /redirect/],
  ['credentials.v1.wrong', 'differs', '200 JSON', /without a valid key/],
  ['credentials.v1.wrong', 'differs', '500 other', /tries again/],
  ['workbooks.integration', 'differs', '3 of 5', /ignored/],
  ['workbooks.integration', 'differs', 'workbooks: 0', null],
  ['workbooks.integration', 'holds', '5 of 5', null],
  ['workbooks.branches', 'seen', 'yes, 2', /every branch/],
  ['workbooks.branches', 'seen', 'no', /compares other branches/],
])('%s that %s with "%s" means %s', (id, outcome, answer, meaning) => {
  const means = STATEMENTS[id]?.meaning;
  if (typeof means !== 'function') throw new Error('its meaning does not depend on the answer');
  if (meaning === null) expect(means(answer, outcome)).toBeNull();
  else expect(means(answer, outcome)).toMatch(meaning);
});
