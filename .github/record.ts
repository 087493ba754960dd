/**
 * Writes down what a release consists of: the digests of its image and of what each platform gets, and those of the images that it was built
 * from and with. Ends with 1 where one of the platforms is missing, or says not what it contains or how it was built.
 *
 *     node .github/record.ts ARCHIVE COMMIT
 *
 * ARCHIVE is an image as `docker buildx build --output type=oci` writes it.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { references } from './pinning.ts';
import { recordOf } from './release-record.ts';

const ROOT = join(import.meta.dirname, '..');
const MOST_BYTES = 16 * 1024 * 1024;

const [archive = '', commit = ''] = process.argv.slice(2);

const member = (name: string): Buffer =>
  execFileSync('tar', ['--extract', '--to-stdout', '--file', archive, name], { maxBuffer: MOST_BYTES });

const { version } = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')));
const texts = ['Dockerfile', '.github/workflows/release.yml'].map((name) =>
  readFileSync(join(ROOT, name), 'utf8'),
);
const record = recordOf({ version, commit, references: texts.flatMap(references), member });
process.stdout.write(`${JSON.stringify(record, null, 2)}\n`);
