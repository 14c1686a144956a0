// Make the frame of the demo as high as its content, also when that changes.
function fit(frame) {
  const page = frame.contentDocument?.documentElement; // null where the site is opened from disk
  if (page) new ResizeObserver(() => { frame.style.height = `${page.offsetHeight + 2}px`; }).observe(page);
}
