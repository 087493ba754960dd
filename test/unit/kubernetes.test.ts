import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { settingDescriptors } from '../../src/config/descriptors.ts';
import { loadSettings } from '../../src/config/load.ts';
import { parseShard } from '../../src/config/plan-settings.ts';
import { temporaryFolder } from '../support/temporary.ts';

const CONFIG = join(import.meta.dirname, '../../config');
const SECRETS = '/run/secrets/workbook-mirror';

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}

interface Container {
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly valueFrom: unknown }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
  }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}

interface Pod {
  readonly enableServiceLinks: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly [Container];
  readonly volumes: readonly {
    readonly name: string;
    readonly persistentVolumeClaim?: { readonly claimName: string };
  }[];
}

interface Claim {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly accessModes: readonly string[] };
}

interface Document {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data: Readonly<Record<string, string>>;
  readonly spec: Claim['spec'] & {
    readonly replicas: number;
    readonly serviceName?: string;
    readonly podManagementPolicy?: string;
    readonly strategy?: unknown;
    readonly clusterIP?: string;
    readonly publishNotReadyAddresses?: boolean;
    readonly selector: Readonly<Record<string, unknown>>;
    readonly volumeClaimTemplates?: readonly Claim[];
    readonly template: { readonly metadata: { readonly labels: unknown }; readonly spec: Pod };
  };
}

/** A file of manifests. */
async function open(name: string) {
  const documents = parseAllDocuments(await readFile(join(CONFIG, name), 'utf8')).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Document;
  });
  const kind = (wanted: string): Document => {
    const found = documents.find((document) => document.kind === wanted);
    if (found === undefined) throw new Error(`no ${wanted} in ${name}`);
    return found;
  };
  const workload = kind(name.includes('standby') ? 'Deployment' : 'StatefulSet');
  const pod = workload.spec.template.spec;
  return {
    kinds: documents.map((document) => document.kind),
    kind,
    workload,
    pod,
    container: pod.containers[0],
  };
}

/** The settings as the pod of an instance has them, with secrets that are there. */
async function settingsOf({ kind, container }: Awaited<ReturnType<typeof open>>, ordinal: number) {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'secrets'));
  for (const name of ['service-api-key', 'service-api-token', 'http-token'])
    await writeFile(join(folder, 'secrets', name), name, { mode: 0o600 });
  const text = kind('ConfigMap').data['config.yaml'] ?? '';
  const configFile = join(folder, 'config.yaml');
  await writeFile(configFile, text.replaceAll(SECRETS, join(folder, 'secrets')));
  vi.stubEnv('JOB_COMPLETION_INDEX', String(ordinal));
  try {
    const env: Record<string, string> = { WORKBOOK_MIRROR_DIRECTORY: '/data' };
    for (const { name } of container.env ?? []) env[name] = 'rediss://user:word@redis.example.com:6379';
    return loadSettings({ flags: {}, env, configFile, needs: ['service', 'directory'] }).settings;
  } finally {
    vi.unstubAllEnvs();
  }
}

const SHARED_VOLUME = 'kubernetes-shards.yaml';
const OWN_VOLUMES = 'kubernetes-shards-own-volumes.yaml';
const STANDBY = 'kubernetes-standby.yaml';

describe.each([SHARED_VOLUME, OWN_VOLUMES, STANDBY])('%s', async (name) => {
  const manifests = await open(name);
  const { kind, kinds, workload, pod, container } = manifests;

  it('asks the addresses that are served, and gives the program the time that it takes to end', () => {
    const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe];
    expect(probes.map(({ httpGet }) => httpGet.path)).toEqual(['/healthz', '/healthz', '/readyz']);
    expect(new Set(probes.map(({ httpGet }) => httpGet.port))).toEqual(new Set(['http']));
    expect(container.ports).toEqual([{ name: 'http', containerPort: 9480 }]);
    expect(container.args).toEqual(['run']);
    expect(pod.enableServiceLinks).toBe(false);
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(30);
  });

  it('lets the program write its volume, and nothing else', () => {
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 65532,
      fsGroup: 65532,
      fsGroupChangePolicy: 'OnRootMismatch',
    });
    expect(container.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    const templates = (workload.spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name);
    const volumes = new Set([...templates, ...pod.volumes.map((volume) => volume.name)]);
    expect(volumes).toEqual(new Set(container.volumeMounts.map((mount) => mount.name)));
    const writable = container.volumeMounts.filter(({ readOnly }) => readOnly !== true);
    expect(writable).toEqual([{ name: 'mirror', mountPath: '/data' }]);
  });

  it('names variables that are settings', () => {
    const names = (container.env ?? []).map((variable) => variable.name);
    const known = settingDescriptors.map(({ environmentVariable }) => environmentVariable);
    expect(known).toEqual(expect.arrayContaining(names));
  });

  it('has a Service for its pods, and no budget that keeps a machine from being drained', () => {
    expect(kind('Service').spec.selector).toEqual(workload.spec.template.metadata.labels);
    expect(workload.spec.selector).toEqual({ matchLabels: workload.spec.template.metadata.labels });
    expect(kinds).not.toContain('PodDisruptionBudget');
  });
});

describe.each([SHARED_VOLUME, OWN_VOLUMES])('the shards of %s', async (name) => {
  const manifests = await open(name);
  const { kind, workload } = manifests;
  const { replicas } = workload.spec;

  it('are as many as there are instances, each of which has its own', async () => {
    const text = /^ *shard: (.*)$/m.exec(kind('ConfigMap').data['config.yaml'] ?? '')?.[1] ?? '';
    const shards = Array.from({ length: replicas }, (_, ordinal) =>
      parseShard(text, `${workload.metadata.name}-${ordinal}`, undefined),
    );
    expect(shards).toEqual(shards.map((_, at) => ({ index: at + 1, count: replicas })));
    expect((await settingsOf(manifests, replicas - 1)).shard).toEqual({ index: replicas, count: replicas });
  });

  it('start together, and are found also while their shares are stale', () => {
    expect(workload.spec.podManagementPolicy).toBe('Parallel');
    expect(workload.spec.serviceName).toBe(kind('Service').metadata.name);
    expect(kind('Service').spec).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true });
  });
});

describe.each([SHARED_VOLUME, STANDBY])('the volume of %s', async (name) => {
  const manifests = await open(name);

  it('is one that all instances write, where a tree is whole without an exchange', async () => {
    const { kind, pod } = manifests;
    expect(kind('PersistentVolumeClaim').spec.accessModes).toEqual(['ReadWriteMany']);
    const mirror = pod.volumes.find((volume) => volume.name === 'mirror');
    expect(mirror?.persistentVolumeClaim?.claimName).toBe(kind('PersistentVolumeClaim').metadata.name);
    expect((await settingsOf(manifests, 0)).publish).toBe('link');
  });
});

describe('the volumes of shards on their own', async () => {
  const manifests = await open(OWN_VOLUMES);

  it('are one for each, and the state is one for all', async () => {
    const { workload } = manifests;
    expect(workload.spec.volumeClaimTemplates?.map(({ spec }) => spec.accessModes)).toEqual([
      ['ReadWriteOnce'],
    ]);
    const { state } = await settingsOf(manifests, 0);
    expect(state.store).not.toBe('sqlite');
  });
});

describe('the instance that stands by', async () => {
  const manifests = await open(STANDBY);

  it('stands by for another one, and is not waited for', async () => {
    const { replicas, strategy } = manifests.workload.spec;
    expect(replicas).toBe(2);
    expect(strategy).toEqual({
      type: 'RollingUpdate',
      rollingUpdate: { maxSurge: '100%', maxUnavailable: '100%' },
    });
    expect((await settingsOf(manifests, 0)).standby).toBe(true);
  });
});
