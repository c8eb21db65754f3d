(() => {
  const {times, lines} = JSON.parse(document.getElementById("frames").textContent);
  const player = document.getElementById("player"), moment = document.getElementById("moment");
  const play = document.getElementById("play"), time = document.getElementById("time");
  const last = times.length - 1;
  let playing = !matchMedia("(prefers-reduced-motion: reduce)").matches, held = 0;
  const draw = (i) => {
    moment.value = i;
    time.textContent = "t = " + times[i];
    for (const screen of player.querySelectorAll(".screen"))
      screen.style.backgroundPosition = (last ? 100 * i / last : 0) + "% 0";
    if (lines) for (const [name, part] of [["truth", "truth"], ["guess", "prediction"], ["error", "error"]]) {
      const line = lines[part][i], n = line.length;
      player.querySelector("polyline." + name).setAttribute("points", line.map((y, k) => (100 * (k + .5) / n).toFixed(2) + "," + y).join(" "));
    }
  };
  const show = () => { play.classList.toggle("playing", playing); };
  play.addEventListener("click", () => { playing = !playing; show(); });
  moment.addEventListener("input", () => { playing = false; show(); draw(+moment.value); });
  setInterval(() => {
    if (!playing) return;
    const i = +moment.value;
    if (i < last) draw(i + 1); else if (++held > 12) { held = 0; draw(0); }
  }, 90);
  draw(playing ? 0 : last); show();
})();
