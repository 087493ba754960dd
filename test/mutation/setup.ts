import { join } from 'node:path';

import { expect } from 'vitest';

/** Which changes a file of tests comes to is written to a file of its name, by programs too that its tests start. */

const { MUTATION_HITS, MUTATION_ROOT = '' } = process.env;
Reflect.deleteProperty(globalThis, 'mutation');
if (MUTATION_HITS !== undefined) {
  const name = String(expect.getState().testPath).slice(MUTATION_ROOT.length + 1);
  process.env['MUTATION_HIT_FILE'] = join(MUTATION_HITS, name.replaceAll('/', '+'));
}
