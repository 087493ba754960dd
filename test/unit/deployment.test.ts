import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

import { CONFIG_VARIABLE, kebabName, settingDescriptors } from '../../src/config/descriptors.ts';
import { fileLayer } from '../../src/config/file.ts';
import type { Container } from '../support/kubernetes.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8');

const VARIABLES: ReadonlySet<string> = new Set([
  CONFIG_VARIABLE,
  ...settingDescriptors.map(({ environmentVariable }) => environmentVariable),
]);

/** The directives of a unit, as `Key=Value` lines, without the comments. */
async function directives(name: string): Promise<string[]> {
  const lines = (await read(`systemd/${name}`)).split('\n');
  return lines.filter((line) => /^[A-Za-z]+=/.test(line));
}

interface Pod {
  readonly enableServiceLinks: boolean;
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly { readonly name: string }[];
}

interface ComposeService {
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes: readonly string[];
  readonly secrets?: readonly string[];
}

describe('the systemd units', () => {
  it('pass every secret that the daemon can use', async () => {
    const secrets = settingDescriptors.filter(({ name, secret }) => secret && !name.startsWith('serve.'));
    const names = secrets.map(({ name }) => kebabName(name));
    const given = (await directives('workbook-mirror.service'))
      .filter((line) => line.startsWith('LoadCredential='))
      .sort();
    expect(given).toEqual(names.map((name) => `LoadCredential=${name}:workbook-mirror.${name}`).sort());
  });

  it('confine a single pass like the daemon', async () => {
    const ofDaemon = await directives('workbook-mirror.service');
    const ofSync = await directives('workbook-mirror-sync.service');
    const begin = 'User=workbook-mirror';
    const walls = (all: readonly string[]): string[] =>
      all.slice(all.indexOf(begin)).filter((line) => !line.startsWith('WantedBy='));
    expect(walls(ofSync)).toEqual(walls(ofDaemon));
  });

  it('become templates: each instance has its own settings, secrets and directory', () => {
    const script = join(ROOT, 'systemd/instances.sed');
    const { stdout } = spawnSync('sed', ['--file', script, join(ROOT, 'systemd/workbook-mirror.service')], {
      encoding: 'utf8',
    });
    for (const line of [
      /^Description=.* \(%i\)$/m,
      /^ExecStart=.* run --config \/etc\/workbook-mirror\/%i\.yaml$/m,
      /^LoadCredential=service-api-key:workbook-mirror@%i\.service-api-key$/m,
      /^StateDirectory=workbook-mirror-%i$/m,
    ])
      expect(stdout).toMatch(line);
    expect(stdout).not.toMatch(/^LoadCredential=.*:workbook-mirror\./m);
  });
});

describe('the Dockerfile', () => {
  it('sets only settings that exist', async () => {
    const names = (await read('Dockerfile')).match(/WORKBOOK_MIRROR_[A-Z_]+/g) ?? [];
    expect(names.filter((name) => !VARIABLES.has(name))).toEqual([]);
    expect(names).not.toEqual([]);
  });

  it('names the version that it builds', async () => {
    const { version } = JSON.parse(await read('package.json')) as { version: string };
    expect(await read('Dockerfile')).toContain(`org.opencontainers.image.version="${version}"`);
    expect(await read('config/compose.yaml')).toContain(`image: workbook-mirror:${version}\n`);
    expect(await read('config/kubernetes.yaml')).toContain(`/workbook-mirror:${version}\n`);
  });
});

describe('the example for Kubernetes', async () => {
  const documents = parseAllDocuments(await read('config/kubernetes.yaml')).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as {
      kind: string;
      data: Record<string, string>;
      spec: { template: { spec: Pod } };
    };
  });
  const kind = (name: string): (typeof documents)[number] => {
    const found = documents.find((document) => document.kind === name);
    if (found === undefined) throw new Error(`no ${name}`);
    return found;
  };
  const pod = kind('Deployment').spec.template.spec;
  const containers = [...pod.initContainers, ...pod.containers];
  const sidecar = pod.initContainers.find(({ args }) => args?.[0] === 'run');

  it('has only settings that exist, and secrets where they are mounted', () => {
    const text = kind('ConfigMap').data['config.yaml'] ?? '';
    const { problems, values } = fileLayer(Buffer.from(text), '/etc/workbook-mirror/config.yaml');
    expect(problems).toEqual([]);
    const secrets = sidecar?.volumeMounts.find(({ name }) => name === 'secrets')?.mountPath;
    expect(values.get('service.apiKeyFile')?.value).toBe(`${secrets}/service-api-key`);
    expect(values.get('service.apiTokenFile')?.value).toBe(`${secrets}/service-api-token`);
  });

  it('mounts only what exists, and lets only the mirror write', () => {
    const volumes = new Set(pod.volumes.map(({ name }) => name));
    for (const { volumeMounts } of containers)
      for (const { name } of volumeMounts) expect(volumes).toContain(name);
    for (const { volumeMounts } of pod.containers)
      for (const { readOnly } of volumeMounts) expect(readOnly).toBe(true);
  });

  it('probes the addresses that the daemon serves', () => {
    const paths = [sidecar?.startupProbe, sidecar?.livenessProbe, sidecar?.readinessProbe].map(
      (probe) => probe?.httpGet.path,
    );
    expect(paths).toEqual(['/healthz', '/healthz', '/readyz']);
    expect(sidecar?.ports?.[0]?.containerPort).toBe(9480);
    expect(pod.enableServiceLinks).toBe(false);
  });
});

describe('the example for Compose', async () => {
  const { services, secrets } = parse(await read('config/compose.yaml')) as {
    services: Record<string, ComposeService>;
    secrets: Record<string, { file: string }>;
  };

  it('sets only settings that exist, and secrets where they are mounted', () => {
    const environment = services['mirror']?.environment ?? {};
    expect(Object.keys(environment).filter((name) => !VARIABLES.has(name))).toEqual([]);
    expect(services['mirror']?.secrets).toEqual(Object.keys(secrets));
    const files = Object.entries(environment).flatMap(([name, value]) =>
      name.endsWith('_FILE') ? [value] : [],
    );
    expect(files).toEqual(Object.keys(secrets).map((name) => `/run/secrets/${name}`));
  });

  it('lets only the mirror write', () => {
    expect(services['mirror']?.volumes).toEqual(['mirror:/data']);
    expect(services['reader']?.volumes).toEqual(['mirror:/data:ro']);
  });
});
