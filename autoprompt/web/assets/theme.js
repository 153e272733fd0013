// Before anything is drawn: the theme that was chosen here, or none, which is the system's.
"use strict";
(() => {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
