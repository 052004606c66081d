// Exits with 0 if this Node can build the page: Vite 8 needs 20.19, or 22.12 and
// newer.

const [major, minor] = process.versions.node.split('.').map(Number);
process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1);
