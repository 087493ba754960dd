import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import {
  commitOf,
  manifestAddress,
  references,
  tokenAddress,
  tokenIn,
  withPins,
} from '../../.github/pinning.ts';

const COMMIT = 'a'.repeat(40);
const OTHER_COMMIT = 'b'.repeat(40);
const DIGEST = `sha256:${'c'.repeat(64)}`;
const OTHER_DIGEST = `sha256:${'d'.repeat(64)}`;

/** Pins all of a text to what does not exist. */
const pinAll = (text: string): string => withPins(text, ({ kind }) => (kind === 'action' ? COMMIT : DIGEST));

describe('pinning', () => {
  it.each([
    ['      - uses: actions/checkout@v5', `      - uses: actions/checkout@${COMMIT} # v5`],
    ['        uses: owner/repo/folder@v1.2', `        uses: owner/repo/folder@${COMMIT} # v1.2`],
    ['      - uses: a/b@v5 # fast', `      - uses: a/b@${COMMIT} # v5 # fast`],
    [`      - uses: a/b@${OTHER_COMMIT} # v5`, `      - uses: a/b@${COMMIT} # v5`],
    ['FROM node:24-slim', `FROM node:24-slim@${DIGEST}`],
    [
      'FROM --platform=$BUILDPLATFORM node:24 AS build',
      `FROM --platform=$BUILDPLATFORM node:24@${DIGEST} AS build`,
    ],
    [`FROM node:24@${OTHER_DIGEST} AS build`, `FROM node:24@${DIGEST} AS build`],
    ['FROM debian', `FROM debian:latest@${DIGEST}`],
    ['FROM localhost:5000/a/b:1', `FROM localhost:5000/a/b:1@${DIGEST}`],
    [
      '          driver-opts: image=moby/buildkit:stable',
      `          driver-opts: image=moby/buildkit:stable@${DIGEST}`,
    ],
    ['          sbom: generator=docker/scan:1', `          sbom: generator=docker/scan:1@${DIGEST}`],
    ['          image: docker.io/a/qemu:1', `          image: docker.io/a/qemu:1@${DIGEST}`],
  ])('turns %s into %s, and that into itself', (line, pinned) => {
    expect(pinAll(line)).toBe(pinned);
    expect(pinAll(pinned)).toBe(pinned);
    expect(references(pinned)).toEqual([
      { ...references(line)[0], pin: line.includes('uses: ') ? COMMIT : DIGEST },
    ]);
  });

  it.each([
    '    uses: ./.github/workflows/ci.yml',
    '      # - uses: actions/checkout@v5',
    '          image=ghcr.io/owner/name:1',
    'COPY --from=build /a /b',
    'FROM scratch',
    `      - uses: a/b@${OTHER_COMMIT}`,
  ])('leaves %s as it is', (line) => {
    expect(withPins(line, ({ tag }) => (tag === undefined ? undefined : COMMIT))).toBe(line);
  });

  it('knows the stages of a Dockerfile', () => {
    const text = 'FROM node:24 AS base\nRUN true\nFROM base AS build\nFROM base\nFROM other\n';
    expect(references(text).map(({ name }) => name)).toEqual(['node', 'other']);
    expect(pinAll(text).split('\n').slice(1, 4)).toEqual(text.split('\n').slice(1, 4));
  });

  it('changes nothing else of the Dockerfile', async () => {
    const text = await readFile(join(import.meta.dirname, '../../Dockerfile'), 'utf8');
    const pinned = pinAll(text);
    expect(references(pinned).map(({ pin }) => pin)).toEqual(references(text).map(() => DIGEST));
    const without = (each: string): string => each.replaceAll(/@sha256:[0-9a-f]{64}/g, '');
    expect(without(pinned)).toBe(without(text));
  });

  it('leaves what there is no pin for', () => {
    const text = 'FROM node:24\nFROM debian:12\n';
    expect(withPins(text, ({ name }) => (name === 'node' ? DIGEST : undefined))).toBe(
      `FROM node:24@${DIGEST}\nFROM debian:12\n`,
    );
  });
});

describe('looking up', () => {
  it('takes what an annotated tag stands for', () => {
    const printed = `${OTHER_COMMIT}\trefs/tags/v5\n${COMMIT}\trefs/tags/v5^{}\n`;
    expect(commitOf(printed, 'v5')).toBe(COMMIT);
    expect(commitOf(`${OTHER_COMMIT}\trefs/tags/v5\n`, 'v5')).toBe(OTHER_COMMIT);
  });

  it('takes no other tag, and nothing that is no commit', () => {
    expect(commitOf(`${COMMIT}\trefs/tags/v5.1\n`, 'v5')).toBeUndefined();
    expect(commitOf('abc\trefs/tags/v5\n', 'v5')).toBeUndefined();
    expect(commitOf('', 'v5')).toBeUndefined();
  });

  it.each([
    ['node', 'https://registry-1.docker.io/v2/library/node/manifests/1'],
    ['docker.io/library/node', 'https://registry-1.docker.io/v2/library/node/manifests/1'],
    ['moby/buildkit', 'https://registry-1.docker.io/v2/moby/buildkit/manifests/1'],
    ['ghcr.io/owner/name', 'https://ghcr.io/v2/owner/name/manifests/1'],
    ['localhost:5000/name', 'https://localhost:5000/v2/name/manifests/1'],
  ])('asks for the manifest of %s at %s', (name, address) => {
    expect(manifestAddress(name, '1').href).toBe(address);
  });

  it('asks for a token where the registry says', () => {
    const challenge = 'Bearer realm="https://auth.example.com/token",service="r",scope="repository:a/b:pull"';
    expect(tokenAddress(challenge)?.href).toBe(
      'https://auth.example.com/token?service=r&scope=repository%3Aa%2Fb%3Apull',
    );
    expect(tokenAddress('Basic realm="x"')).toBeUndefined();
    expect(tokenAddress('')).toBeUndefined();
  });

  it('takes the token by either name', () => {
    expect(tokenIn({ token: 'a', access_token: 'b' })).toBe('a');
    expect(tokenIn({ access_token: 'b' })).toBe('b');
    for (const answer of [{}, { token: 1 }, null, 'a'])
      expect(() => tokenIn(answer)).toThrow('gives no token');
  });
});
