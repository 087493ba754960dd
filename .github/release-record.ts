import { createHash } from 'node:crypto';

import { z } from 'zod';

import type { Reference } from './pinning.ts';

/** What a release consists of. */
export interface ReleaseRecord {
  readonly version: string;
  readonly commit: string;
  readonly image: {
    /** Of the index that names all platforms: what the image is asked for by. */
    readonly digest: string;
    /** The digest of each platform's own image. */
    readonly platforms: Readonly<Record<string, string>>;
  };
  /** The images that it was built from and with. */
  readonly builtFrom: readonly { readonly name: string; readonly tag: string; readonly digest: string }[];
}

/** Where an archive comes from, and how a file in it is read. */
export interface RecordInput {
  readonly version: string;
  readonly commit: string;
  readonly references: readonly Reference[];
  readonly member: (name: string) => Buffer;
}

/** Entries of an index, and what of a manifest is looked at (https://github.com/opencontainers/image-spec). */
const descriptor = z.object({
  digest: z.string(),
  platform: z.object({ os: z.string(), architecture: z.string() }).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
});
const index = z.object({ manifests: z.array(descriptor) });
const manifest = z.object({ layers: z.array(descriptor) });

type Descriptor = z.infer<typeof descriptor>;

/** What an image is released for. */
const PLATFORMS = ['linux/amd64', 'linux/arm64'];

/** What must be said of each: what it contains, and how it was built. */
const STATEMENTS = ['https://spdx.dev/Document', 'https://slsa.dev/provenance/'];

const DIGEST = /^sha256:(?<hex>[0-9a-f]{64})$/;

/**
 * Reads an image of several platforms in the OCI layout, in which each has a manifest of statements beside it
 * (https://docs.docker.com/build/metadata/attestations/attestation-storage/).
 * @throws Error where a platform or a statement is missing, a digest is not that of its content, or an image has no digest
 */
export function recordOf({ version, commit, references, member }: RecordInput): ReleaseRecord {
  const [image, ...others] = index.parse(JSON.parse(String(member('index.json')))).manifests;
  if (image === undefined || others.length > 0) throw new Error('the archive does not hold one image');
  const { manifests } = index.parse(blob(member, image.digest));
  const platforms = PLATFORMS.map((platform) => {
    const [found, ...more] = manifests.filter((each) => nameOf(each) === platform);
    if (found === undefined || more.length > 0) throw new Error(`there is not one image for ${platform}`);
    manifest.parse(blob(member, found.digest));
    checkStatements(platform, statementsOf(member, manifests, found.digest));
    return [platform, found.digest] as const;
  });
  const unknown = manifests.map(nameOf).filter((name) => name !== undefined && !PLATFORMS.includes(name));
  if (unknown.length > 0) throw new Error(`nobody expects an image for ${unknown.join(', ')}`);
  return {
    version,
    commit,
    image: { digest: image.digest, platforms: Object.fromEntries(platforms) },
    builtFrom: imagesIn(references),
  };
}

/** Undefined for what is no image: a manifest of statements. */
function nameOf({ platform }: Descriptor): string | undefined {
  return platform === undefined || platform.os === 'unknown'
    ? undefined
    : `${platform.os}/${platform.architecture}`;
}

function blob(member: RecordInput['member'], digest: string): unknown {
  const hex = DIGEST.exec(digest)?.groups?.['hex'];
  if (hex === undefined) throw new Error(`${digest} is no digest`);
  const content = member(`blobs/sha256/${hex}`);
  if (createHash('sha256').update(content).digest('hex') !== hex)
    throw new Error(`${digest} is not that of its content`);
  return JSON.parse(String(content));
}

/** The kinds of statements about an image. */
function statementsOf(
  member: RecordInput['member'],
  manifests: readonly Descriptor[],
  digest: string,
): string[] {
  const about = manifests.filter(
    ({ annotations }) =>
      annotations?.['vnd.docker.reference.type'] === 'attestation-manifest' &&
      annotations['vnd.docker.reference.digest'] === digest,
  );
  const layers = about.flatMap((each) => manifest.parse(blob(member, each.digest)).layers);
  return layers.flatMap(({ annotations }) => annotations?.['in-toto.io/predicate-type'] ?? []);
}

function checkStatements(platform: string, kinds: readonly string[]): void {
  for (const wanted of STATEMENTS)
    if (!kinds.some((kind) => kind.startsWith(wanted)))
      throw new Error(`the image for ${platform} has no statement ${wanted}`);
}

function imagesIn(references: readonly Reference[]): ReleaseRecord['builtFrom'] {
  const images = references.filter(({ kind }) => kind === 'image');
  const named = images.map(({ name, tag = 'latest', pin: digest }) => {
    if (digest === undefined) throw new Error(`${name} is not pinned`);
    return { name, tag, digest };
  });
  return [...new Map(named.map((each) => [`${each.name}:${each.tag}@${each.digest}`, each])).values()];
}
