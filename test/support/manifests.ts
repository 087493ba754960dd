import * as fc from 'fast-check';

import { nameFault, treeFault } from '../../src/lib/paths/file-name.ts';
import { byCodeUnits, type Manifest, type ManifestFile } from '../../src/mirror/store/manifest.ts';

/** Whole milliseconds of years with four digits. */
const timeMs = fc.integer({ min: 0, max: 253_402_300_799_999 });

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('"', '\\', '\n "files": []', '\u2028', '\ud800', '__proto__', 'é'),
);
const name = text.filter((each) => each !== '');
/** Possible paths in a tree, some of them in folders. */
const path = fc
  .array(fc.oneof(text, fc.constantFrom('a', 'b')), { minLength: 1, maxLength: 3 })
  .map((segments) => segments.join('/'))
  .filter((each) => nameFault(each) === null);
const textOrNull = fc.option(text);
const sizeBytes = fc.nat({ max: Number.MAX_SAFE_INTEGER });

function digits(length: number): fc.Arbitrary<string> {
  return fc.string({
    unit: fc.constantFrom(...Array.from({ length: 16 }, (_, digit) => digit.toString(16))),
    minLength: length,
    maxLength: length,
  });
}

const PLAIN = { noNullPrototype: true } as const;
const OPTIONAL = { ...PLAIN, requiredKeys: [] as never[] };

function both<One extends object, Other>(
  one: fc.Arbitrary<One>,
  other: fc.Arbitrary<Other>,
): fc.Arbitrary<One & Other> {
  return fc.tuple(one, other).map(([some, others]) => Object.assign({}, some, others));
}

/** Any file of a manifest. */
function manifestFiles(): fc.Arbitrary<ManifestFile> {
  const facts = fc.record({ author: textOrNull, message: textOrNull, createdAt: textOrNull }, PLAIN);
  const ids = fc.record({ id: text, versionId: text, action: textOrNull, parentId: textOrNull }, PLAIN);
  const workbook = both(ids, facts);
  const needed = fc.record(
    {
      path,
      sizeBytes,
      sha256: digits(64),
      mode: fc.nat({ max: 0o777 }),
      mtimeMs: fc.nat({ max: (2 ** 31 - 1) * 1000 }),
    },
    PLAIN,
  );
  const more = fc.record({ crc32: fc.nat({ max: 0xffffffff }), workbook }, OPTIONAL);
  return both(needed, more);
}

/** Any manifest, its files sorted. */
export function manifests(): fc.Arbitrary<Manifest> {
  const files = fc
    .uniqueArray(manifestFiles(), { selector: ({ path }) => path, maxLength: 8 })
    .filter((each) => treeFault(each.map(({ path }) => path)) === null)
    .map((each) => each.toSorted((a, b) => byCodeUnits(a.path, b.path)));
  const named = { id: name, name: text, fullName: name, url: textOrNull, createdAt: textOrNull };
  const repository = fc.record(named, PLAIN);
  const reason = fc.constantFrom('symbolic-link' as const, 'special-file' as const, 'submodule' as const);
  const approval = fc.record({ approvedBy: text, approvedAtMs: timeMs, isByWord: fc.boolean() }, PLAIN);
  const needed = fc.record(
    {
      repository,
      branch: name,
      verifiedAtMs: timeMs,
      comparedAtMs: timeMs,
      publishedAtMs: timeMs,
      restoredAtMs: fc.option(timeMs),
      fingerprint: textOrNull,
      borrowed: fc.array(text),
      settled: fc.boolean(),
      etag: textOrNull,
      archiveBytes: sizeBytes,
      skipped: fc.array(fc.record({ path, reason }, PLAIN)),
      files,
    },
    PLAIN,
  );
  const more = fc.record({ missing: fc.array(text, { minLength: 1 }), approval }, OPTIONAL);
  return both(needed, more);
}
