/**
 * Makes the pictures of README and manual anew.
 *
 *     npm run pictures              into .github/pictures
 *     npm run pictures -- FOLDER    into another folder
 */
import { PICTURES_FOLDER, makePictures } from './pictures.ts';

const into = process.argv[2] ?? PICTURES_FOLDER;
await makePictures(into);
process.stdout.write(`${into} has the pictures of this version.\n`);
