# Sourced by start.sh and stop.sh.

# Whether the process that FOLDER/pid names is the server of FOLDER, and not another one that got its number.
runs() {
    local folder=$1 process arguments
    [[ -s $folder/pid ]] || return 1
    process=$(<"$folder/pid")
    arguments=$(tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline") || return 1
    [[ $arguments == *" Launcher "*" $folder "* ]]
}
