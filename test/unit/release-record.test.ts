import { createHash } from 'node:crypto';

import { describe, expect, it } from 'vitest';

import { references } from '../../.github/pinning.ts';
import { recordOf, type ReleaseRecord } from '../../.github/release-record.ts';

const BASE = `sha256:${'a'.repeat(64)}`;
const PINNED = `FROM node:24@${BASE} AS build\nFROM node:24@${BASE}\n`;
const SPDX = 'https://spdx.dev/Document';
const SLSA = 'https://slsa.dev/provenance/v1';

/** An archive in memory, as BuildKit writes it. */
class Archive {
  readonly #files = new Map<string, string>();

  /** @returns its digest */
  add(content: unknown): string {
    const text = JSON.stringify(content);
    const hex = createHash('sha256').update(text).digest('hex');
    this.#files.set(`blobs/sha256/${hex}`, text);
    return `sha256:${hex}`;
  }

  damage(digest: string): void {
    this.#files.set(digest.replace('sha256:', 'blobs/sha256/'), '{"layers": []}');
  }

  /** An image, and what is said of it. */
  platform(architecture: string, statements = [SPDX, SLSA]): Record<string, unknown>[] {
    const digest = this.add({ layers: [], architecture });
    const layers = statements.map((kind) => ({
      digest: BASE,
      annotations: { 'in-toto.io/predicate-type': kind },
    }));
    const annotations = {
      'vnd.docker.reference.type': 'attestation-manifest',
      'vnd.docker.reference.digest': digest,
    };
    return [
      { digest, platform: { os: 'linux', architecture } },
      {
        digest: this.add({ layers, about: architecture }),
        annotations,
        platform: { os: 'unknown', architecture: 'unknown' },
      },
    ];
  }

  /** @returns the digest of the index */
  close(...manifests: readonly Record<string, unknown>[]): string {
    const digest = this.add({ manifests });
    this.#files.set('index.json', JSON.stringify({ manifests: [{ digest }] }));
    return digest;
  }

  record(dockerfile = PINNED): ReleaseRecord {
    return recordOf({
      version: '1.2.3',
      commit: 'c0ffee',
      references: references(dockerfile),
      member: (name) => Buffer.from(this.#files.get(name) ?? ''),
    });
  }
}

describe('the record of a release', () => {
  it('has the digests of the image, of its platforms, and of what it was built from', () => {
    const archive = new Archive();
    const [amd64, arm64] = [archive.platform('amd64'), archive.platform('arm64')];
    const digest = archive.close(...amd64, ...arm64);
    expect(archive.record()).toEqual({
      version: '1.2.3',
      commit: 'c0ffee',
      image: {
        digest,
        platforms: { 'linux/amd64': amd64[0]?.['digest'], 'linux/arm64': arm64[0]?.['digest'] },
      },
      builtFrom: [{ name: 'node', tag: '24', digest: BASE }],
    });
  });

  it('is refused where a platform is missing, or one too many', () => {
    const few = new Archive();
    few.close(...few.platform('amd64'));
    expect(() => few.record()).toThrow('there is not one image for linux/arm64');
    const many = new Archive();
    many.close(...['amd64', 'arm64', 's390x'].flatMap((name) => many.platform(name)));
    expect(() => many.record()).toThrow('nobody expects an image for linux/s390x');
  });

  it.each([[[SPDX]], [[SLSA]], [[]]])(
    'is refused where all that is said of a platform is %j',
    (statements) => {
      const archive = new Archive();
      archive.close(...archive.platform('amd64'), ...archive.platform('arm64', statements));
      expect(() => archive.record()).toThrow('the image for linux/arm64 has no statement https://');
    },
  );

  it('is refused where a digest is not that of its content, or there is none', () => {
    const archive = new Archive();
    const amd64 = archive.platform('amd64');
    archive.close(...amd64, ...archive.platform('arm64'));
    expect(() => archive.record('FROM node:24\n')).toThrow('node is not pinned');
    archive.damage(String(amd64[0]?.['digest']));
    expect(() => archive.record()).toThrow('is not that of its content');
  });
});
