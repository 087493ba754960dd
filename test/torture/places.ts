import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { type NetworkMachine, startVolume } from '../support/gluster.ts';
import { type AtEnd, temporaryFolder } from '../support/temporary.ts';

/** Where instances and readers work. */
export interface Place {
  readonly name: string;
  /** The directory of the mirror, as seen from here. */
  readonly directory: string;
  /** Kills the file system and mounts it anew, and cuts its cable; null where there is nothing of that. */
  readonly mount: Pick<NetworkMachine, 'kill' | 'remount' | 'setCable' | 'answers'> | null;
  /** How often the mount was lost or came back: what was going on meanwhile may fail. */
  changes: number;
  isAway: boolean;
}

/** The file systems on which it is done. */
export const FILE_SYSTEMS = ['plain', 'gluster'] as const;
export type FileSystem = (typeof FILE_SYSTEMS)[number];

/** After how many seconds of silence the server gives up a machine, with its locks, and a machine the server. */
const GIVEN_UP = { 'server.tcp-user-timeout': '5', 'network.ping-timeout': '5' };

/** Makes two places with one directory. */
export async function openPlaces(fileSystem: FileSystem, atEnd: AtEnd): Promise<readonly [Place, Place]> {
  if (fileSystem === 'plain') {
    const directory = join(await temporaryFolder(atEnd), 'mirrored');
    await mkdir(directory);
    const place = (name: string): Place => ({ name, directory, mount: null, changes: 0, isAway: false });
    return [place('one'), place('other')];
  }
  const [one, other] = await startVolume(GIVEN_UP, atEnd);
  const place = (name: string, machine: NetworkMachine): Place => ({
    name,
    directory: join(machine.folder, 'mirrored'),
    mount: machine,
    changes: 0,
    isAway: false,
  });
  return [place('one', one), place('other', other)];
}
