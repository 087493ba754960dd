import { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { Listing, TargetId } from '../upstream/listing.ts';

/** The whole directory, in the place of a target: an approval of another service is for it. */
export const WHOLE_DIRECTORY: TargetId = { repositoryId: '', branch: '' };

/** Whether a service lists repositories, and none of those that a directory holds. @param mirrored their ids */
export function listsNoneOf(
  mirrored: ReadonlySet<string>,
  { repositories }: Pick<Listing, 'repositories'>,
): boolean {
  return mirrored.size > 0 && repositories.length > 0 && !repositories.some(({ id }) => mirrored.has(id));
}

/**
 * The error of a pass that would mix two services in one directory.
 * @param mirrored how many repositories the directory holds
 * @param formerAddress where they came from; null where that is not on record
 */
export function otherService(
  { address }: Pick<Listing, 'address'>,
  mirrored: number,
  formerAddress: string | null,
): MirrorError {
  const former =
    formerAddress === null
      ? 'from an address that is not on record'
      : formerAddress === address
        ? 'from the same address'
        : `from ${formerAddress}`;
  const held = counted(mirrored, 'repository', 'repositories');
  return new MirrorError(
    'directory.other_service',
    `The service at ${address} lists none of the ${held} that the directory holds, which came ${former}. Nothing was published or retired.`,
    {
      hint: `Set service.baseUrl back, or give this service a directory of its own. If it is to be mirrored beside what is there, and what is there is to leave as any other target that is gone: ${ownCommand('approve --all')}.`,
    },
  );
}
