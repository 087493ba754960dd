import { join } from 'node:path';

import { expect } from 'vitest';

/** Records the changes that a test file reaches in a file of its name, also from programs that it starts. */

const { MUTATION_HITS, MUTATION_ROOT = '' } = process.env;
Reflect.deleteProperty(globalThis, 'mutation');
if (MUTATION_HITS !== undefined) {
  const name = String(expect.getState().testPath).slice(MUTATION_ROOT.length + 1);
  process.env['MUTATION_HIT_FILE'] = join(MUTATION_HITS, name.replaceAll('/', '+'));
}
