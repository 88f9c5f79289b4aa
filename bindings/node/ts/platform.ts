/** The name of this platform. */

/** Returns the name as in the names of the packages with native modules, such as `linux-x64-gnu`. */
export function platformName(): string {
  const { platform, arch } = process
  if (platform === 'win32') return `win32-${arch}-msvc`
  if (platform !== 'linux') return `${platform}-${arch}`
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } }
  return `linux-${arch}-${report?.header?.glibcVersionRuntime ? 'gnu' : 'musl'}`
}
